"""`restart_in_place`: a program that stays in its process when the training starts again on its nodes."""

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from holdfast_protocol import variables
from holdfast_protocol.gates import RESTART_IN_PLACE
from holdfast_protocol.lost_peer import says_peer_is_gone
from holdfast_train.data import rng
from holdfast_train.environment import read_settings
from holdfast_train.pod.launcher.verdict_files import read_rank_verdicts
from holdfast_train.run import attempt_over
from holdfast_train.say import say

T = TypeVar("T")
CLEAN_SECONDS: Final = 10.0  # for the process to clean up after an attempt
JOIN_SECONDS: Final = 5.0  # for threads to end
COLLECT_SECONDS: Final = 2.0  # for threads to let go of the attempt
PAUSE: Final = 0.05  # between two looks
STORE_SECONDS: Final = 1.0  # for the store to answer
GPU_BYTES: Final = 256 << 20  # that libraries such as cuBLAS may keep on the GPUs
SAVER: Final = "holdfast-saver"  # this thread ends when the launcher has ended the writer of checkpoints
OWN: Final = ("holdfast-", "peers")  # names of threads


def restart_in_place(train: Callable[[], T]) -> T:
    """Call `train`, and return what it returns. When the training starts again, call it again in this process.

        def train():
            torch.distributed.init_process_group()
            model = ...
            with holdfast_train.Run(model=model) as run:
                ...

        holdfast_train.restart_in_place(train)

    `train` makes the process group, the model and the Run, and gets everything that one attempt needs, and nothing of
    it stays behind: no global variable, no thread. Before each call the environment, the working directory, the
    generators of random numbers and the handlers of SIGTERM and SIGINT are as before the first one.

    It is called again if the gate RestartInPlace is on, the training is on several nodes with one process each, and
    the launcher has started this process itself. If anything is left of the earlier attempt, or the process does not
    come back in time, the program starts again in another process.
    """
    folder = os.environ.get(variables.IN_PLACE)
    if variables.JOB in os.environ and not read_settings(os.environ).is_on(RESTART_IN_PLACE):
        say(f"restart_in_place starts new processes: the gate {RESTART_IN_PLACE.name} is off")
        return train()
    if not folder or not (Path(folder) / f"launcher-{os.getppid()}").exists():
        return train()
    if threading.current_thread() is not threading.main_thread():
        say("restart_in_place was called outside the main thread: a restart starts a new process")
        return train()
    return _Program(Path(folder)).run(train)


class _Program:
    """This process, over several attempts. `folder`: where it speaks with the launcher, as `InPlace` says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / str(os.getpid())
        self._attempt = os.environ.get(variables.ATTEMPT, "")
        self._is_called_back = False
        self._environment = dict(os.environ)
        self._working_directory = Path.cwd()
        self._generators = rng.capture()
        self._handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        self._gpu_bytes = _gpu_bytes()
        if "torch" in sys.modules:
            # Its functions keep, as a default argument, the process group that exists when it is imported.
            with contextlib.suppress(ImportError):  # a torch without torch.distributed
                importlib.import_module("torch.distributed.nn.functional")

    def run(self, train: Callable[[], T]) -> T:
        """As `restart_in_place`."""
        call = self._path.with_suffix(".call")
        os.mkfifo(call, 0o600)
        pipe = os.open(call, os.O_RDWR | os.O_CLOEXEC)  # not for reading alone: that would wait for the launcher
        threading.Thread(target=self._listen, args=(pipe,), name="in-place", daemon=True).start()
        while True:
            code, value = self._call(train)
            if code is None:
                call.unlink(missing_ok=True)
                return cast("T", value)
            self._clean_up()
            word = self._wait(code)
            if word["do"] != "start":
                if code:
                    raise SystemExit(code)
                return cast("T", value)
            value = None  # it may have parts of the model
            self._begin(word["environment"])

    def _listen(self, pipe: int) -> None:
        """In a thread: end the attempt that the launcher names."""
        while data := os.read(pipe, 4096):
            if self._attempt in data.decode().split():
                self._is_called_back = True
                attempt_over.end_attempt()
                _abort_groups()

    def _call(self, train: Callable[[], T]) -> tuple[int | None, T | None]:
        """One attempt: exit code and result. The exit code is None if the program goes on after its training."""
        try:
            value = train()
        except (Exception, attempt_over.AttemptOverError) as error:
            if not self._may_go_on(error):
                raise
            traceback.print_exc()
            return 1, None
        return (0 if _has_left() else None), value

    def _may_go_on(self, error: BaseException) -> bool:
        """True if the training starts again because of another node, so this process is healthy."""
        return self._is_called_back or says_peer_is_gone(f"{type(error).__name__}: {error}")

    # Between two attempts.

    def _clean_up(self) -> None:
        """End what belongs to this attempt, so that the others notice that this rank is gone."""
        late = threading.Timer(CLEAN_SECONDS, _give_up_late)
        late.daemon = True
        late.start()
        try:
            _close_agreements()
            _abort_groups()
            _destroy_groups()
            _join(but=(SAVER,))
            _collect()
            _check_nothing_left(self._gpu_bytes)
        except Exception as error:  # noqa: BLE001 - of any library: a new process has not that error
            _give_up(f"{type(error).__name__}: {error}")
        finally:
            late.cancel()

    def _wait(self, code: int) -> Mapping[str, Any]:
        """Stop until the launcher says what to do."""
        after = self._path.with_suffix(".next")
        sys.stdout.flush()
        sys.stderr.flush()
        self._path.with_suffix(".back").write_text(str(code), encoding="utf-8")
        while not after.exists():
            os.kill(os.getpid(), signal.SIGSTOP)
        found: Mapping[str, Any] = json.loads(after.read_text(encoding="utf-8"))
        after.unlink()
        return found

    def _begin(self, changed: Mapping[str, str | None]) -> None:
        """Make this process as it was before its first attempt, and say so. `changed`: variables of the environment."""
        try:
            _join()
            environment = {**self._environment, **changed}
            os.environ.clear()
            os.environ.update({name: value for name, value in environment.items() if value is not None})
            os.chdir(self._working_directory)
            for number, handler in self._handlers.items():
                if handler is not None:  # None: not one of Python's
                    signal.signal(number, handler)
            _restore_generators(self._generators)
        except Exception as error:  # noqa: BLE001 - of any library: a new process has not that error
            _give_up(f"{type(error).__name__}: {error}")
        self._attempt = os.environ[variables.ATTEMPT]
        self._is_called_back = False
        self._path.with_suffix(".on").touch()


def _has_left() -> bool:
    """True if the Run of this process has left on a notice. It wrote that into the folder of verdicts."""
    mine = [one for one in read_rank_verdicts(os.environ.get(variables.VERDICT_DIR)) if one.pid == os.getpid()]
    return any(one.result in ("saved", "left") for one in mine)


def _give_up(why: str) -> NoReturn:
    """End this process as the launcher would: the next attempt gets a new one."""
    say(f"the program cannot go on in its process: {why}")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL has ended this process")


def _give_up_late() -> None:
    faulthandler.dump_traceback()  # of all threads: one of them shows what does not end
    _give_up(f"the end of its attempt takes longer than {CLEAN_SECONDS:.0f} s")


def _close_agreements() -> None:
    for agreement in attempt_over.agreements():
        agreement.close()


def _abort_groups() -> None:
    """End collectives that wait for another rank. Only NCCL can do that; gloo's end when the others close."""
    distributed = _distributed()
    for group in [] if distributed is None else list(distributed.distributed_c10d._world.pg_map):
        with contextlib.suppress(Exception):  # it has ended already, or cannot be aborted
            group.abort()


def _destroy_groups() -> None:
    distributed = _distributed()
    if distributed is not None:
        distributed.destroy_process_group()


def _distributed() -> Any:
    """torch.distributed if there is a process group."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return torch.distributed


def _join(but: tuple[str, ...] = ()) -> None:
    """Wait for the threads of this library. RuntimeError if one does not end."""
    end = time.monotonic() + JOIN_SECONDS
    mine = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not mine and thread.name.startswith(OWN) and thread.name not in but:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise RuntimeError(f"the thread {thread.name} does not end")


def _collect() -> None:
    """Free what the function had: the model keeps the process group. A thread may have a part of it for a moment."""
    end = time.monotonic() + COLLECT_SECONDS
    while True:
        gc.collect()
        if not any(True for _ in attempt_over.agreements()) or time.monotonic() >= end:
            return
        time.sleep(PAUSE)


def _check_nothing_left(gpu_bytes: int) -> None:
    """RuntimeError if the state of an earlier attempt is still in memory."""
    if any(True for _ in attempt_over.agreements()):
        raise RuntimeError("its Run is still in memory: make it, and all that it gets, inside the function")
    if os.environ.get("RANK") == "0" and _store_answers():  # the other ranks would wait for it, while this one stops
        raise RuntimeError("its process group is still in memory: make it, and all that uses it, inside the function")
    if (left := _gpu_bytes() - gpu_bytes) > GPU_BYTES:
        raise RuntimeError(f"{left / 2**30:.1f} GiB on the GPUs are still in use: make all tensors inside the function")


def _store_answers() -> bool:
    """True if this process still serves the store of the process group."""
    try:
        with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), STORE_SECONDS):
            return True
    except (KeyError, ValueError, OSError):  # there is none, or it has ended
        return False


def _gpu_bytes() -> int:
    """Bytes of tensors on the GPUs. An error if a GPU is not healthy."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def _restore_generators(state: Mapping[str, Any]) -> None:
    """Take over the state before the first attempt. GPUs that were not in use then get the seed of the CPU."""
    rng.restore(state)
    torch: Any = sys.modules.get("torch")
    if torch is not None and "cuda" not in state and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(torch.initial_seed())
