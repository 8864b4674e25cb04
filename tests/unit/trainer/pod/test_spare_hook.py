"""A program sees no difference if it starts in a process that has waited."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.spares import SEES, Ended, cold, end, make_torch, waiting, warm

OLD = {"HOLDFAST_ATTEMPT": "1", "HOLDFAST_PREDECESSOR": "1", "MASTER_PORT": "1"}
NEW = {"HOLDFAST_ATTEMPT": "2", "MASTER_PORT": "2", "HOLDFAST_VERDICT_DIR": "/verdicts"}
IMPORTS = "import beside\nprint(beside is torch.beside, beside.__file__)\n"  # torch imports `beside` too
COMMANDS = {
    "a script": ["python", "-u", "train.py", "--lr", "1", "ä"],
    "a script elsewhere": ["python", "-X", "dev", "-W", "once", "folder/link.py"],
    "a module": ["python", "-O", "-m", "train", "a"],
    "a package": ["python", "-m", "folder"],
    "code": ["python", "-c", SEES, "-m"],
    "a folder": ["python", "folder"],
    "without the folder of the script": ["python", "-P", "run"],
    "a file that Linux runs": ["./run", "train"],
    "a file on PATH": ["run", "train"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment. The folder of this test is the current one, and has programs."""
    monkeypatch.chdir(tmp_path)
    torch = make_torch(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("train.py", "folder/__main__.py"):
        (tmp_path / name).write_text(SEES + IMPORTS)
    for name in ("beside.py", "folder/beside.py"):
        (tmp_path / name).touch()
    (tmp_path / "folder" / "link.py").symlink_to("../train.py")
    # Linux splits the first line at spaces, and this Python may lie below a folder with one: `env` finds it on PATH.
    (tmp_path / "run").write_text(f"#!/usr/bin/env python\n{SEES}\nprint(torch.beside)")
    (tmp_path / "run").chmod(0o755)
    search = f"{Path(sys.executable).parent}:{tmp_path}:{os.environ['PATH']}"
    return {"PATH": search, "PYTHONPATH": torch, "OMP_NUM_THREADS": "1"}


# Breaks if anything of the process that has waited can be seen: in arguments, modules, the search path, open files, ...
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_program_sees_the_same(tmp_path: Path, place: dict[str, str], kind: str) -> None:
    started, new = warm(tmp_path, COMMANDS[kind], place | OLD, place | NEW), cold(COMMANDS[kind], place | NEW)
    assert started.code == new.code == 0, (started, new)
    seen, expected = started.seen, new.seen
    early = set(seen.pop("modules")) - set(expected.pop("modules"))
    assert "torch" in early
    assert not [name for name in early if "spare" in name or "sitecustomize" in name or "holdfast" in name]
    # Folders of torch, which were searched before the program was.
    assert set(expected.pop("cache")) <= set(cache := seen.pop("cache"))
    assert not [path for path in cache if "holdfast-run" in path]
    assert seen == expected
    others = [[line for line in one.out.splitlines() if not line.startswith("SEES")] for one in (started, new)]
    assert others[0] == others[1]


# Breaks if the module that runs is imported before: Python warns then, and its code runs twice.
def test_a_module_of_torch_that_runs_is_not_imported_early(tmp_path: Path, place: dict[str, str]) -> None:
    for name in ("tool.py", "package/__init__.py", "package/__main__.py"):
        (tmp_path / "packages" / "torch" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "packages" / "torch" / name).write_text("print(__name__)")
    for name in ("tool", "package"):
        command = ["python", "-m", f"torch.{name}"]
        folder = tmp_path / "packages" / "torch"
        file = folder / (f"{name}.py" if name == "tool" else "package/__init__.py")
        files = {"torch": folder / "__init__.py", f"torch.{name}": file, f"torch.{name}.__main__": file}
        started = warm(tmp_path, command, place, place, {name: str(path) for name, path in files.items()})
        assert started == cold(command, place)


def both(folder: Path, place: dict[str, str], code: str) -> tuple[Ended, Ended]:
    """The same script, started in a process that has waited and in a new one."""
    (folder / "ends.py").write_text(code)
    command = ["python", "ends.py"]
    return warm(folder, command, place | OLD, place | NEW), cold(command, place | NEW)


ENDS = {
    "an exception": ("import torch\ndef f(): raise ValueError('a test')\ntry: f()\nexcept ValueError: 1 / 0", 1),
    "an error of syntax": ("import torch\ndef f(:", 1),
    "a code": ("import sys, torch; sys.exit(7)", 7),
    "a text": ("import sys, torch; sys.exit('no data')", 1),
    "a key": ("import os, torch; os.kill(os.getpid(), 2); import time; time.sleep(60)", -signal.SIGINT),
    "a thread": ("import threading, torch; threading.Thread(target=print, args=('in a thread',)).start()", 0),
    "at exit": ("import atexit, torch; atexit.register(print, 'at exit'); raise SystemExit(3)", 3),
}


# Breaks if the last lines of a failure, or its exit code, say that the process has waited.
@pytest.mark.parametrize("kind", ENDS)
def test_a_program_ends_the_same(tmp_path: Path, place: dict[str, str], kind: str) -> None:
    code, exit_code = ENDS[kind]
    started, new = both(tmp_path, place, code)
    early = "torch says something\n"  # a script that cannot be read does not come to its import of torch
    assert (started.out, started.code) == (new.out, new.code)
    assert started.err == (new.err if new.err.startswith(early) else early + new.err)
    assert new.code == exit_code


CHILDREN = """
import dataclasses, multiprocessing, pickle, subprocess, sys, torch
@dataclasses.dataclass
class Config: value: int
def work(config, answers): answers.put(Config(config.value + 1))
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1] if sys.argv[1:] else "spawn")
    answers = context.Queue()
    child = context.Process(target=work, args=(Config(1), answers))
    child.start()
    print(answers.get(), pickle.loads(pickle.dumps(Config(5))), child.join())
    print(subprocess.check_output([sys.executable, "-c", "import os, sys; print(sys.path, sorted(os.environ))"]))
"""


# Breaks if a child cannot import `__main__`, or if it finds the launcher on its search path.
def test_children_of_a_program_are_the_same(tmp_path: Path, place: dict[str, str]) -> None:
    started, new = both(tmp_path, place, CHILDREN)
    assert started == new
    assert "Config(value=2) Config(value=5) None" in new.out


# Breaks if a library could have read another value when it was imported.
@pytest.mark.parametrize("change", [{"OMP_NUM_THREADS": "8"}, {"LD_PRELOAD": ""}, {"OMP_NUM_THREADS": None}])
def test_another_environment_is_refused(tmp_path: Path, place: dict[str, str], change: dict[str, str | None]) -> None:
    after = {name: value for name, value in (place | NEW | change).items() if value is not None}
    command = ["python", "-c", "import os; print(os.getpid(), os.environ.get('OMP_NUM_THREADS'))"]
    with waiting(tmp_path, command, place | OLD) as waits:
        (number,) = waits.processes()
        process = waits.start(command, after)
        assert process.pid != number
        assert end(process).out == f"{process.pid} {after.get('OMP_NUM_THREADS')}\n"


# Breaks if the program gets another torch than it has had: one that stands elsewhere on its search path.
@pytest.mark.parametrize("given", ["/opt/other/torch/__init__.py", ""])
def test_a_module_from_another_file_than_in_the_program(
    tmp_path: Path, place: dict[str, str], capfd: pytest.CaptureFixture[str], given: str
) -> None:
    with waiting(tmp_path, COMMANDS["a script"], place | OLD, {"__main__": "train.py", "torch": given}) as waits:
        process = waits.start(["echo", "new"], place | NEW)
        assert end(process) == Ended("new\n", "", 0)
    here = f"{tmp_path}/packages/torch/__init__.py"
    assert f"ImportError: torch is {here} here, and {given or 'no file'} in the program" in capfd.readouterr().err


# Breaks if the program runs with a module as it was before another version of it was installed.
@pytest.mark.parametrize("change", [lambda path: path.write_text("print('new')"), lambda path: path.unlink()])
def test_a_file_that_has_changed_since_its_import(
    tmp_path: Path, place: dict[str, str], change: Callable[[Path], object]
) -> None:
    with waiting(tmp_path, ["python", "-c", "import beside"], place | OLD) as waits:
        assert len(waits.processes()) == 1
        change(tmp_path / "beside.py")
        process = waits.start(["echo", "new"], place | NEW)
        assert end(process) == Ended("new\n", "", 0)


# Breaks if the image's own sitecustomize is hidden, is run late, or has its error swallowed.
@pytest.mark.parametrize("text", ["import sys; sys.of_site = 'torch' in sys.modules", "1 / 0", "import no_such_module"])
def test_the_sitecustomize_of_the_image(tmp_path: Path, place: dict[str, str], text: str) -> None:
    (tmp_path / "packages" / "sitecustomize.py").write_text(text)
    code = "import sys\nprint(getattr(sys, 'of_site', None), sys.modules.get('sitecustomize'))\nimport torch"
    started, new = both(tmp_path, place, code)
    assert (started.out, started.code) == (new.out, new.code)
    assert sorted(started.err.splitlines()) == sorted(new.err.splitlines())


# Breaks if the process that waits lives on without its launcher, or runs the script then.
def test_without_its_launcher_the_process_ends(tmp_path: Path, place: dict[str, str]) -> None:
    (tmp_path / "ends.py").write_text("print('runs')")
    with waiting(tmp_path, ["python", "ends.py"], place | OLD) as waits:
        process = waits._process
        assert process is not None
        assert waits._socket is not None
        waits._socket.shutdown(socket.SHUT_RDWR)
        assert end(process) == Ended("", "torch says something\n", 0)


# Breaks if a message that is no plan makes the process run the script.
def test_a_failure_before_the_start_ends_the_process(tmp_path: Path, place: dict[str, str]) -> None:
    with waiting(tmp_path, ["python", "-c", "print('runs')"], place | OLD) as waits:
        process = waits._process
        assert process is not None
        waits._send({"no": "environment"})
        found = end(process)
        assert (found.out, found.code) == ("", 1)
        assert "the spare process failed: KeyError: 'environment'" in found.err


# Breaks if the file of the launcher changes anything for a Python that has it on PYTHONPATH and does not wait.
def test_a_python_that_does_not_wait(tmp_path: Path, place: dict[str, str]) -> None:
    with waiting(tmp_path, ["python", "-c", ""], place | OLD) as waits:
        hook = waits._hook
    place["PYTHONPATH"] = hook
    found = subprocess.run(["python", "-c", "print('runs')"], env=place, capture_output=True, check=False)
    assert (found.stdout, found.stderr) == (b"runs\n", b"")
