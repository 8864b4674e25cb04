"""The process that waits: when there is one, when it ends, and that it is no process of the program."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.trainer.spares import Ended, Running, end, make_torch, tell, waiting
from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

from holdfast_train.pod.launcher.process_tree import descendants
from holdfast_train.pod.launcher.signals.receivers import receivers
from holdfast_train.pod.launcher.timings import Timings
from holdfast_train.pod.launcher.warm import spare
from holdfast_train.pod.launcher.warm.told import read_told

COMMAND = ["python", "-c", "import os; print(os.environ['HOLDFAST_ATTEMPT'])"]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """The environment of the first attempt."""
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": search, "PYTHONPATH": make_torch(tmp_path), "HOLDFAST_ATTEMPT": "1"}


def started(waits: spare.Spare, environment: dict[str, str], command: list[str] = COMMAND) -> tuple[int, Ended]:
    process = waits.start(command, environment | {"HOLDFAST_ATTEMPT": "2"})
    return process.pid, end(process)


# Breaks if a signal for the program reaches the process that waits, or if the end of the program ends it.
def test_the_process_is_none_of_the_program(tmp_path: Path, place: dict[str, str]) -> None:
    with waiting(tmp_path, COMMAND, place) as waits:
        (pid,) = waits.processes()
        assert pid in descendants(os.getpid())
        assert pid not in descendants(os.getpid(), waits.processes())
        assert pid in receivers(os.getpid(), signal.SIGINT).now
        assert pid not in receivers(os.getpid(), signal.SIGINT, waits.processes()).now
        assert started(waits, place) == (pid, Ended("2\n", "torch says something\n", 0))
        assert waits.processes() == []


# Breaks if a process that the next program does not need is lost, and another one takes memory beside it.
def test_a_process_that_was_not_used_waits_on(tmp_path: Path, place: dict[str, str]) -> None:
    with waiting(tmp_path, COMMAND, place) as waits:
        (pid,) = waits.processes()
        told = read_told(str(tmp_path / "verdicts"), 0)
        assert told is not None
        with waits.beside(Running(told.pid), place, str(tmp_path / "verdicts")):
            wait_for(lambda: waits.is_settled, 20, "a process that waits")
        assert waits.processes() == [pid]
        assert started(waits, place) == (pid, Ended("2\n", "torch says something\n", 0))


# Breaks if a process that has died is taken for the program.
def test_a_process_that_has_died_is_no_error(
    tmp_path: Path, place: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with waiting(tmp_path, COMMAND, place) as waits:
        (pid,) = waits.processes()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        new, found = started(waits, place)
        assert new != pid
        assert found == Ended("2\n", "", 0)
    assert "starts in a process" not in capfd.readouterr().err


# Breaks if a kill of the process that waits is told as one of the program: the job would be said to need more memory.
def test_a_kill_for_memory_is_not_the_program_s(
    tmp_path: Path, place: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = 3
    monkeypatch.setattr(spare, "killed_processes", lambda: killed)
    with waiting(tmp_path, COMMAND, place) as waits:
        assert waits.oom_kills == 0
        killed = 4
        assert waits.oom_kills == 0  # of the program: the process lives
        (pid,) = waits.processes()
        killed = 6
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wait_for(lambda: waits.oom_kills == 1, 20, "a kill that is counted")  # the other one is the program's
        assert waits.processes() == []


# Breaks if the script runs although Python has not come to the file that makes it wait.
def test_a_python_that_does_not_import_sitecustomize(
    tmp_path: Path, place: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "python"
    shim.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" "$@"\n')
    shim.chmod(0o755)
    command = ["python", "-c", f"import pathlib; pathlib.Path({str(tmp_path / 'runs')!r}).touch()"]
    with waiting(tmp_path, command, place | {"PATH": f"{shim.parent}:/bin"}) as waits:
        assert waits.processes() == []
        assert not (tmp_path / "runs").exists()
    assert "this Python does not import sitecustomize" in capfd.readouterr().err


@pytest.mark.parametrize("command", [["sh", "-c", "python train.py"], ["python", "-E", "train.py"], ["/bin/true"]])
def test_other_commands_have_none(tmp_path: Path, place: dict[str, str], command: list[str]) -> None:
    with waiting(tmp_path, command, place) as waits:
        assert waits.processes() == []
        assert end(waits.start(["/bin/echo", "runs"], place)) == Ended("runs\n", "", 0)


# Breaks if a process takes memory, or threads, that the program may need.
@pytest.mark.parametrize("has_memory", [False, True])
def test_no_process_without_room(
    tmp_path: Path,
    place: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    has_memory: bool,
) -> None:
    wanted: list[int] = []

    def has_room(size: int) -> bool:
        wanted.append(size)
        return has_memory

    monkeypatch.setattr(spare, "has_room", has_room)
    monkeypatch.setattr(spare, "has_tasks", lambda: not has_memory)
    with waiting(tmp_path, COMMAND, place) as waits:
        assert waits.processes() == []
    assert wanted == [512 << 20]
    assert "no memory, or no threads" in capfd.readouterr().err


# Breaks if the process keeps its memory while the program needs it.
def test_the_process_ends_if_memory_gets_short(
    tmp_path: Path, place: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spare, "is_short", lambda: True)
    before = set(descendants(os.getpid()))
    with waiting(tmp_path, COMMAND, place) as waits:
        assert waits.processes() == []
    wait_for(lambda: before.issuperset(descendants(os.getpid())), 20, "the end of the process")
    assert "memory is short: the process that waits for the next attempt is ended" in capfd.readouterr().err


# Breaks if a program that fails before it trains has a process that waits, or if its end waits for one.
def test_a_program_that_has_not_begun_to_train_has_none(tmp_path: Path, place: dict[str, str]) -> None:
    waits = spare.Spare(COMMAND, tmp_path, timings=Timings(spare_look=0.02))
    with waits.beside(spare.Program([], {}), place, str(tmp_path)):
        pass
    assert waits.is_settled
    assert waits.processes() == []


# Breaks if a program that prepares its imports starts in a process that has imported before, or if the log says no why.
def test_a_program_that_changes_its_environment(
    tmp_path: Path, place: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    waits = spare.Spare(COMMAND, tmp_path, timings=Timings(spare_look=0.02))
    code = "import sys, torch; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        tell(tmp_path, program.pid, "torch", changed=["OMP_NUM_THREADS"])
        for _ in range(2):
            with waits.beside(Running(program.pid), place, str(tmp_path)):
                wait_for(lambda: waits.is_settled, 60, "the end of the search")
        program.kill()
    assert waits.processes() == []
    said = "no process with the modules of the program waits for the next attempt: the program changes OMP_NUM_THREADS"
    assert capfd.readouterr().err.count(said) == 1


# Breaks if the pod that comes after a notice imports torch only when the others have stopped.
def test_a_process_is_ready_before_the_first_program(tmp_path: Path, place: dict[str, str]) -> None:
    with contextlib.closing(spare.Spare(COMMAND, LAUNCHER)) as waits:
        waits.prepare(["torch"], place, threading.Event())
        (pid,) = waits.processes()
        assert started(waits, place) == (pid, Ended("2\n", "torch says something\n", 0))


# Breaks if the other nodes wait until the new pod has imported what only the first optimizer imports.
def test_what_optimizers_import_is_there_before_the_first_program(tmp_path: Path, place: dict[str, str]) -> None:
    package = tmp_path / "packages" / "torch"
    (package / "_dynamo.py").write_text("import sys; sys.stderr.write('and its compiler\\n')\n")
    with contextlib.closing(spare.Spare(COMMAND, LAUNCHER)) as waits:
        waits.prepare(["torch"], place, threading.Event())
        ended = started(waits, place)[1]
        assert ended.err == "torch says something\nand its compiler\n"


# Breaks if a pod that has to go waits for an import.
def test_a_signal_ends_the_wait_for_an_import(place: dict[str, str]) -> None:
    over = threading.Event()
    over.set()
    with contextlib.closing(spare.Spare(COMMAND, LAUNCHER)) as waits:
        waits.prepare(["torch"], place, over)
        assert waits.processes() == []


# Breaks if another program is started once more, or if a pod waits for an import that does not end.
def test_what_cannot_be_imported_early_does_not_hold_up(place: dict[str, str]) -> None:
    with contextlib.closing(spare.Spare(["sh", "-c", "exit 7"], LAUNCHER)) as waits:
        waits.prepare(["torch"], place, threading.Event())
        assert waits.processes() == []
        assert waits.imports == ()


# Breaks if other pods are told of modules that have effects of their own, or of a process that is not ready.
def test_the_libraries_that_another_pod_can_import(tmp_path: Path, place: dict[str, str]) -> None:
    with waiting(tmp_path, COMMAND, place) as waits:
        assert waits.imports == ("torch",)
