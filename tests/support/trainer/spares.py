"""Programs that start in a process that has waited, and beside it as ever, with a torch that imports in no time."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.program import Program
from holdfast_train.pod.launcher.timings import Timings
from holdfast_train.pod.launcher.warm.spare import Spare
from holdfast_train.pod.launcher.warm.told import FILE

# The launcher finds out by this file in memory whether a program uses torch.
TORCH = """
import mmap, pathlib, sys
with pathlib.Path(__file__).with_name("libtorch_python.so").open("rb") as file:
    _memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
sys.stderr.write("torch says something\\n")
import multiprocessing
try: import beside
except ImportError: beside = None
"""
# What a program can see of its process. Addresses of objects differ in any case.
SEES = r"""
import sys
modules = list(sys.modules)
import torch
import gc, json, os, re, signal, threading
files = {}
for number in os.listdir("/proc/self/fd"):
    if os.path.exists(f"/proc/self/fd/{number}"): files[number] = os.readlink(f"/proc/self/fd/{number}").split(":")[0]
main = vars(sys.modules["__main__"])
seen = dict(
    argv=sys.argv, original=getattr(sys, "orig_argv", 0), path=sys.path, flags=str(sys.flags),
    main={name: str(value) for name, value in main.items() if name.startswith("__")}, environment=dict(os.environ),
    files=files, handlers={number: str(signal.getsignal(number)) for number in sorted(signal.valid_signals())},
    mask=str(signal.pthread_sigmask(signal.SIG_BLOCK, [])), threads=[one.name for one in threading.enumerate()],
    tasks=len(os.listdir("/proc/self/task")), folder=os.getcwd(), line=open("/proc/self/cmdline").read(),
    score=open("/proc/self/oom_score_adj").read(), nice=os.nice(0), session=os.getsid(0), group=os.getpgid(0),
    finders=str(sys.meta_path), cache=sorted(sys.path_importer_cache), warnings=sys.warnoptions, umask=os.umask(18),
    hooks=str([sys.excepthook, sys.displayhook]), collector=gc.get_threshold(), modules=sorted(modules),
    executable=sys.executable, main_of_children=sys.modules.get("__mp_main__") is sys.modules["__main__"],
)
print("SEES " + re.sub(r"0x[0-9a-f]+", "", json.dumps(seen)), flush=True)
"""


class Running(Program):
    """A program that runs: the process that was given."""

    def __init__(self, pid: int) -> None:
        super().__init__([], {})
        self._pid = pid


@dataclass(frozen=True)
class Ended:
    """What a process printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def seen(self) -> dict[str, Any]:
        """What a program with SEES has seen."""
        found: dict[str, Any] = json.loads(next(line for line in self.out.splitlines() if line.startswith("SEES "))[5:])
        return found


def make_torch(folder: Path) -> str:
    """Put TORCH into a folder below `folder`, for PYTHONPATH."""
    package = folder / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TORCH)
    (package / "libtorch_python.so").write_bytes(b"a library")
    return str(package.parent)


def tell(folder: Path, pid: int, *names: str, local_rank: int = 0, **more: object) -> None:
    """Write into `folder` what a rank tells that has imported these modules."""
    content = {"pid": pid, "files": dict.fromkeys(names, ""), "changed": [], "moved": False, **more}
    folder.mkdir(exist_ok=True)
    (folder / FILE.format(local_rank)).write_text(json.dumps(content))


@contextmanager
def waiting(
    folder: Path, command: list[str], environment: Mapping[str, str], files: Mapping[str, str] | None = None
) -> Iterator[Spare]:
    """A spare for `command`, beside a program that has imported torch: inside `with` it waits, or there is none.

    `files`: what the program tells of its modules. Otherwise it has imported torch, as `make_torch` has made it.
    """
    spare = Spare(command, LAUNCHER, timings=Timings(spare_look=0.02))
    up = "import sys, torch; print(flush=True); sys.stdin.read()"
    packages = {"PYTHONPATH": f"{folder}/packages"}
    with subprocess.Popen(
        [sys.executable, "-c", up],
        env=packages,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        made = {"__main__": "/train.py", "__mp_main__": "/train.py", "torch": f"{folder}/packages/torch/__init__.py"}
        tell(folder / "verdicts", program.pid, files=made if files is None else files)
        try:
            with spare.beside(Running(program.pid), environment, str(folder / "verdicts")):
                wait_for(lambda: spare.is_settled, 60, "a process that waits")
            yield spare
        finally:
            spare.close()
            program.kill()


def end(process: "subprocess.Popen[bytes]") -> Ended:
    """The end of a process with pipes."""
    out, err = process.communicate(timeout=60)
    return Ended(out.decode(), err.decode(), process.returncode)


def cold(command: list[str], environment: Mapping[str, str]) -> Ended:
    """The command in a new process."""
    return end(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE))


def warm(
    folder: Path,
    command: list[str],
    before: Mapping[str, str],
    after: Mapping[str, str],
    files: Mapping[str, str] | None = None,
) -> Ended:
    """The command in a process that has waited: with the environment `before` until its start, then with `after`."""
    with waiting(folder, command, before, files) as spare:
        (waits,) = spare.processes()
        process = spare.start(command, after)
        assert process.pid == waits
        return end(process)
