"""A process that waits between two attempts. With real programs: tests/integration/trainer/nodes/test_in_place.py."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for

from holdfast_protocol import variables
from holdfast_train.pod.launcher.in_place import InPlace, in_place
from holdfast_train.pod.launcher.process_tree import state_of
from holdfast_train.pod.launcher.program import Running, Starter
from holdfast_train.pod.launcher.timings import Timings

GATE = ("RestartInPlace",)
# Comes back once, as a program does; `deaf` says nothing when it goes on.
PROGRAM = """
import os, pathlib, signal, sys
path = pathlib.Path(sys.argv[1], str(os.getpid()))
path.with_suffix(".back").write_text("1")
after = path.with_suffix(".next")
while not after.exists(): os.kill(os.getpid(), signal.SIGSTOP)
print(after.read_text(), flush=True)
if sys.argv[2:] == ["deaf"]: signal.pause()
path.with_suffix(".on").touch()
"""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[InPlace]:
    found = InPlace(str(tmp_path))
    yield found
    found.close()


def start(folder: Path, *options: str) -> Running:
    """A program that is back, and stopped."""
    return stopped([sys.executable, "-S", "-c", PROGRAM, str(folder), *options], {"A": "1", "B": "2"})


def stopped(command: list[str], environment: dict[str, str]) -> Running:
    child = Starter().start(command, environment)
    os.waitpid(child.pid, os.WUNTRACED)
    return Running.of(child, environment)


def end(running: Running) -> int:
    """The exit code."""
    running.child.returncode = os.waitstatus_to_exitcode(os.waitpid(running.child.pid, 0)[1])
    return running.child.returncode


# Breaks if the process gets variables of the attempt before, or keeps one that the next attempt does not have.
def test_a_process_goes_on_with_the_environment_of_the_next_attempt(tmp_path: Path, programs: InPlace) -> None:
    running = start(tmp_path)
    assert programs.read_back(running.child.pid) == 1
    assert programs.read_back(running.child.pid) is None
    programs.keep(running)
    assert programs.kept == running.child.pid
    assert programs.go_on({"A": "1", "C": "3"}) is running
    assert programs.kept == 0
    assert end(running) == 0
    (line,) = running.out.finish(20)
    assert json.loads(line) == {"do": "start", "environment": {"B": None, "C": "3"}}


# Breaks if a process that hangs keeps the next attempt from its start.
def test_a_process_that_does_not_go_on_is_killed(tmp_path: Path) -> None:
    programs = InPlace(str(tmp_path), timings=Timings(in_place_answer=0.1))
    running = start(tmp_path, "deaf")
    programs.keep(running)
    assert programs.go_on({}) is None
    assert state_of(running.child.pid) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"launcher-{os.getpid()}"]


# Breaks if the start of an attempt waits for a process that the kernel has killed between the attempts.
@pytest.mark.parametrize("collected", [True, False])
def test_a_process_that_has_ended_meanwhile(tmp_path: Path, programs: InPlace, collected: bool) -> None:
    running = start(tmp_path)
    programs.keep(running)
    os.kill(running.child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, running.child.pid, os.WEXITED | os.WNOWAIT)
    if collected:
        os.waitpid(running.child.pid, 0)
    assert programs.go_on({}) is None
    assert state_of(running.child.pid) is None


# Breaks if another process, which has got the same number since, is taken for the one that waits, or is killed.
def test_a_process_of_the_same_number_is_not_touched(tmp_path: Path, programs: InPlace) -> None:
    running = start(tmp_path)
    programs._waiting = running, 1.0
    assert programs.go_on({}) is None
    found = state_of(running.child.pid)
    assert found is not None
    assert found.letter == "T"
    os.kill(running.child.pid, signal.SIGKILL)
    assert end(running) == -signal.SIGKILL


def test_a_process_that_waits_ends_with_its_launcher(tmp_path: Path) -> None:
    environment = pod_variables({"TMPDIR": str(tmp_path)}, gates=GATE)
    with in_place(environment) as programs:
        running = start(Path(environment[variables.IN_PLACE]))
        programs.keep(running)
    assert state_of(running.child.pid) is None
    assert not Path(environment[variables.IN_PLACE]).exists()


# Breaks if a process that is back stays when its pod has to go.
def test_a_process_ends_by_itself_if_its_pod_has_to_go(tmp_path: Path, programs: InPlace) -> None:
    running = start(tmp_path)
    programs.let_end(running.child.pid)
    assert end(running) == 0
    assert running.out.finish(20) == ('{"do": "end"}',)


# Breaks if the launcher waits for a program that cannot come back.
def test_only_a_program_that_listens_is_asked(tmp_path: Path, programs: InPlace) -> None:
    assert not programs.ask(os.getpid(), "1")
    call = tmp_path / f"{os.getpid()}.call"
    os.mkfifo(call)
    assert not programs.ask(os.getpid(), "1")
    pipe = os.open(call, os.O_RDWR)
    assert programs.ask(os.getpid(), "17")
    assert os.read(pipe, 100) == b"17\n"
    os.close(pipe)


# Breaks if a rank of torchrun stops itself: torchrun would wait for it for ever.
def test_programs_with_several_processes_get_no_folder() -> None:
    environment = pod_variables({"PET_NPROC_PER_NODE": "8"}, gates=GATE)
    with in_place(environment) as programs:
        assert variables.IN_PLACE not in environment
        assert not programs.ask(os.getpid(), "1")


# Breaks if a program stays in its process although no administrator has turned that on.
def test_without_its_gate_a_program_gets_no_folder() -> None:
    environment: dict[str, str] = {}
    with in_place(environment):
        assert variables.IN_PLACE not in environment


# Breaks if the lines of one attempt are shown as the last lines of another one.
def test_lines_before_the_stop_do_not_count_again(tmp_path: Path, programs: InPlace) -> None:
    script = PROGRAM.replace("import os,", "print('of the first'); import os,", 1)
    running = stopped([sys.executable, "-uSc", script, str(tmp_path)], {})
    assert running.out.turn_page(20) == ("of the first",)
    programs.keep(running)
    assert programs.go_on({}) is running
    wait_for(lambda: running.out.lines, 20, "a line of the second attempt")
    assert end(running) == 0
    assert "of the first" not in running.out.finish(20)
