"""sitecustomize of a spare: a Python process of the program that imports torch and waits before it starts.

The launcher starts the program's own command, with this file first on PYTHONPATH. Python imports `sitecustomize` before
it looks at its script. So the process imports what the launcher says, waits at a socket, and gets the environment of
the next attempt. Then this module takes back all that it has changed, and Python goes on with the script as in any
other process: arguments, `__main__`, tracebacks and options are those of a process that has never waited. It does not
become the program if the environment has changed in more than the attempt, or if a file that it has imported has.

A spare of torchrun also has a spare for each of its ranks, which torchrun gets when it starts them.

`launcher_file` puts this file beside the launcher. It runs on Python 3.9 and later. Until it has imported what the
program has imported, it uses only modules that every Python has imported before its script (so no pathlib).
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False  # `typing` is not imported: it belongs to no Python that starts a script
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from typing import Any

SOCKET = "HOLDFAST_SPARE"  # variable with the number of the socket's file descriptor
SOCKET_NUMBER = 1000  # a library that opens a file and keeps it gets the number that it gets in any other process
READY, REFUSED, GOES = b"ready", b"n", b"y"
OOM_SCORE = "/proc/self/oom_score_adj"
WORKER_SECONDS = 120.0  # for the spare of a rank to import what it needs,
ANSWER_SECONDS = 10.0  # and to start
OF_SCRIPT = ("__main__", "__mp_main__")  # one module with two names, the second of which multiprocessing gives
# Variables that may differ between two attempts. No library reads them before its first function is called.
OF_ATTEMPT = frozenset(
    b"HOLDFAST_ATTEMPT HOLDFAST_PREDECESSOR HOLDFAST_VERDICT_DIR PET_MASTER_ADDR PET_MASTER_PORT MASTER_ADDR "
    b"MASTER_PORT KUBEFLOW_TRAINER_SERVER_URL KUBEFLOW_TRAINER_SERVER_TOKEN TORCHELASTIC_RUN_ID "
    b"TORCHELASTIC_ERROR_FILE".split()
)


def _read(number: int, size: int) -> bytes:
    """`size` bytes of the socket. The process ends if the launcher has closed it."""
    data = b""
    while len(data) < size:
        part = os.read(number, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def _receive(number: int) -> Any:
    return marshal.loads(_read(number, int.from_bytes(_read(number, 8), "big")))  # noqa: S302 - of our parent process


def _message(content: dict[str, Any]) -> bytes:
    data = marshal.dumps(content, 2)  # 2: every Python reads it
    return len(data).to_bytes(8, "big") + data


def _hide() -> tuple[int, str]:
    """Take this module out of what the program can see. The number of the socket, the file of this module."""
    here = __file__.rpartition("/")[0]
    given = int(os.environ.pop(SOCKET))
    try:
        number = os.dup2(given, SOCKET_NUMBER, inheritable=False)
        os.close(given)
    except OSError:  # a process of this container may not have that many files
        number = given
        os.set_inheritable(number, False)
    _, _, rest = os.environ["PYTHONPATH"].partition(os.pathsep)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        del os.environ["PYTHONPATH"]
    sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)
    del sys.modules[__name__]
    return number, here


def _import_next() -> Exception | None:
    """Import the sitecustomize of the image, as Python does without this one. Its error, None if there is none."""
    try:
        __import__("sitecustomize")
    except Exception as error:  # noqa: BLE001 - raised again once the process starts
        return error
    return None


def _folder_of_script() -> list[str]:
    """What Python puts first on its search path when it comes to its script."""
    if getattr(sys.flags, "safe_path", False):
        return []
    if sys.argv[0] in ("-c", "-m"):
        return ["" if sys.argv[0] == "-c" else os.getcwd()]  # noqa: PTH109
    script = os.path.realpath(sys.argv[0])
    return [script if os.path.isdir(script) else os.path.dirname(script)]  # noqa: PTH112, PTH120


def _import(names: Sequence[str], files: Mapping[str, str], own: str) -> None:
    """Import `names`, as the script `own` would. A name that cannot be imported is left to the script.

    ImportError if a module comes from another file than in the program, which had changed its search path: `files`.
    """
    first = _folder_of_script()
    sys.path[:0] = first
    for name in names:
        if name not in (own, f"{own}.__main__"):
            try:
                __import__(name)
            except Exception:  # noqa: BLE001, S112 - the script meets it at the same place as ever
                continue
    for folder in first:
        sys.path.remove(folder)
    for name, module in list(sys.modules.items()):
        if name not in OF_SCRIPT and files.get(name, found := _file_of(module)) != found:
            raise ImportError(f"{name} is {found or 'no file'} here, and {files[name] or 'no file'} in the program")


def _file_of(module: object) -> str:
    """The file of a module, empty if it has none. A module that loads its content later does not do so here."""
    found = getattr(module, "__dict__", {}).get("__file__")
    return found if isinstance(found, str) else ""


def _stamps() -> dict[str, tuple[int, int, int] | None]:
    """Of each file that a module was imported from: its time of change, size and number; None if it is not there."""
    found: dict[str, tuple[int, int, int] | None] = {}
    for name in {_file_of(module) for module in list(sys.modules.values())} - {""}:
        try:
            status = os.stat(name)  # noqa: PTH116
        except OSError:
            found[name] = None
        else:
            found[name] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _set_oom_score(text: str) -> None:
    with open(OOM_SCORE, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)


def _raise_oom_score(given: str | None) -> str | None:
    """Make the kernel kill this process before the program if memory runs out. The value of the program, if known.

    `given`: that value, for a child of a spare.
    """
    try:
        with open(OOM_SCORE, encoding="utf-8") as file:  # noqa: PTH123
            before = file.read()
        _set_oom_score("1000")
    except OSError:
        return None
    return given or before


class _Worker:
    """The spare of a rank, a child of this torchrun. OSError if it does not become ready."""

    def __init__(self, recipe: Mapping[str, Any], here: str, oom_score: str | None) -> None:
        import socket  # noqa: PLC0415 - torch has imported it
        import subprocess  # noqa: PLC0415

        self._argv: list[bytes] = recipe["argv"]
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(WORKER_SECONDS)
        environment = dict(recipe["environment"])
        path = environment.get(b"PYTHONPATH")
        environment[b"PYTHONPATH"] = os.fsencode(here) + (os.fsencode(os.pathsep) + path if path else b"")
        environment[SOCKET.encode()] = str(theirs.fileno()).encode()
        with theirs:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                self._argv, env=environment, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self._socket.sendall(_message({**recipe, "workers": [], "oom_score": oom_score}))
        if not self._socket.recv(64).startswith(READY):
            self.end()
            raise OSError("a spare of a rank has ended")

    def start(self, argv: Sequence[str], environment: Mapping[str, str], outputs: Sequence[Any]) -> bool:
        """True if the process goes on as the rank with these arguments."""
        if [os.fsencode(one) for one in argv] != self._argv:
            return False
        paths = [None if file is None else f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in outputs]
        content = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.sendall(_message({"environment": content, "outputs": paths}))
            goes = self._socket.recv(1) == GOES
        except OSError:
            goes = False
        if goes:
            self._socket.close()
        return goes

    def end(self) -> None:
        """End the process."""
        self._socket.close()
        self.process.kill()
        self.process.wait()


def _give(workers: list[_Worker]) -> None:
    """Let torchrun take `workers` in place of new processes. The first that does not fit ends the others."""
    from torch.distributed.elastic.multiprocessing import api  # noqa: PLC0415

    handlers: Any = vars(api)["SubprocessHandler"]
    start = handlers._popen

    def popen(handler: Any, args: Sequence[str], env: Mapping[str, str]) -> Any:
        if workers:
            worker = workers.pop(0)
            if worker.start(args, env, (handler._stdout, handler._stderr)):
                return worker.process
            for other in (worker, *workers):
                other.end()
            workers.clear()
        return start(handler, args, env)

    handlers._popen = popen


def _become(number: int, before: Mapping[bytes, bytes], order: Mapping[str, Any], oom_score: str | None) -> bool:
    """Take the environment of the next attempt and its outputs. False if the process cannot become its program.

    `before`: the environment of the program that this process was made for. Python itself may have added to it.
    """
    after = order["environment"]
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if changed - OF_ATTEMPT:
        return False
    for name in changed:
        if name in after:
            os.environb[name] = after[name]
        else:
            del os.environb[name]
    for target, path in enumerate(order["outputs"], 1):
        if path is not None:
            source = os.open(path, os.O_WRONLY)
            os.dup2(source, target)
            os.close(source)
    if oom_score is not None:
        _set_oom_score(oom_score)
    os.write(number, GOES)
    os.close(number)
    return True


def _wait() -> Exception | None:
    """Import, wait, and become the program. The error of the image's own sitecustomize, None if there is none."""
    number, here = _hide()
    plan = _receive(number)
    if plan.get("probe"):
        os.write(number, READY + b" %d\n" % os.getpid())
        os._exit(0)
    oom_score = _raise_oom_score(plan.get("oom_score"))
    error = _import_next()
    _import(plan["modules"], plan["files"], plan["own"])
    stamps = _stamps()
    workers = [_Worker(recipe, here, oom_score) for recipe in plan["workers"]]
    if workers:
        _give(workers)
    os.write(number, READY + b" %d\n" % os.getpid())
    order = _receive(number)
    if stamps != _stamps() or not _become(number, plan["environment"], order, oom_score):
        os.write(number, REFUSED)
        os._exit(0)
    return error


if SOCKET in os.environ:
    _module = sys.modules[__name__]
    try:
        _error = _wait()
    except BaseException as _failure:  # noqa: BLE001 - the script must not run: this process is not a rank
        os.write(2, f"holdfast-run: the spare process failed: {type(_failure).__name__}: {_failure}\n".encode())
        os._exit(1)
    if _error is not None:
        sys.modules[__name__] = _module  # Python removes a module that raises
        raise _error
