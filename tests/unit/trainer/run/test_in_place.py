"""A function that is called again in its process. With torch and several ranks: tests/integration/trainer/nodes."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast_train
from holdfast_protocol import variables
from holdfast_train.pod.launcher.in_place import InPlace
from holdfast_train.pod.launcher.program import Running, Starter

PEER = "[gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:1"
PROGRAM = f"""
import os, random, signal, socket, sys, threading
from holdfast_train import restart_in_place
from holdfast_train.run import in_place
in_place.JOIN_SECONDS = 0.1

what = sys.argv[1]
kept = []

def train():
    attempt = os.environ["HOLDFAST_ATTEMPT"]
    term = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    print(attempt, os.environ.get("OWN"), os.environ.get("GONE"), term, random.random(), os.getcwd(), flush=True)
    if attempt == "2":
        return "the value"
    os.environ["OWN"] = "changed"
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.chdir("/")
    if what == "store":
        kept.append(socket.create_server(("127.0.0.1", 0)))
        os.environ.update(RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(kept[0].getsockname()[1]))
    if what == "thread":
        threading.Thread(target=signal.pause, name="holdfast-left", daemon=True).start()
    raise RuntimeError("a test" if what == "fails" else {PEER!r})

os.environ["OWN"] = "given"
random.seed(7)
print(restart_in_place(train), flush=True)
"""


class Started:
    """The program, whose launcher is this process."""

    def __init__(self, folder: Path, what: str) -> None:
        self.launcher = InPlace(str(folder))
        inherited = {**os.environ, variables.IN_PLACE: str(folder)}
        self.variables = {**inherited, "HOLDFAST_ATTEMPT": "1", "GONE": "1"}
        self.running = Running.of(
            Starter().start([sys.executable, "-c", PROGRAM, what], self.variables), self.variables
        )
        self.pid = self.running.child.pid

    def wait(self) -> int | None:
        """The exit code; None if it has stopped."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return None
        self.running.child.returncode = os.waitstatus_to_exitcode(status)
        return self.running.child.returncode

    def go_on(self) -> Running | None:
        """Begin attempt 2."""
        self.launcher.keep(self.running)
        variables = {name: value for name, value in self.variables.items() if name != "GONE"}
        return self.launcher.go_on({**variables, "HOLDFAST_ATTEMPT": "2"})


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[[str], Started]]:
    started: list[Started] = []

    def start(what: str) -> Started:
        started.append(Started(tmp_path, what))
        return started[-1]

    yield start
    for one in started:
        if one.running.child.returncode is None:
            one.running.child.kill()
            one.wait()


def test_without_a_launcher_the_function_is_called_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(variables.IN_PLACE, raising=False)
    assert holdfast_train.restart_in_place(lambda: 5) == 5
    monkeypatch.setenv(variables.IN_PLACE, str(tmp_path))  # of a launcher that has not started this process itself
    assert holdfast_train.restart_in_place(lambda: 6) == 6
    assert not list(tmp_path.iterdir())


# Breaks if a program does not learn why it starts in a new process.
def test_without_its_gate_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(variables.JOB, "job")
    assert holdfast_train.restart_in_place(lambda: 5) == 5
    said = capsys.readouterr().err
    assert said == "holdfast: restart_in_place starts new processes: the gate RestartInPlace is off\n"


# Breaks if the second attempt sees a variable, a handler, a folder or a random number of the first one.
def test_the_function_is_called_again_as_in_a_new_process(program: Callable[[str], Started]) -> None:
    started = program("peer")
    assert started.wait() is None
    assert started.launcher.read_back(started.pid) == 1
    assert started.go_on() is started.running
    assert started.wait() == 0
    first, second, value = started.running.out.finish(20)
    assert (first.split()[0], value) == ("1", "the value")
    assert first.split()[1:3] == ["given", "1"]
    assert second.split()[:3] == ["2", "given", "None"]
    assert first.split()[3:] == second.split()[3:]


# Breaks if a process goes on after an error of its own.
def test_an_error_of_the_program_itself_ends_it(program: Callable[[str], Started]) -> None:
    started = program("fails")
    assert started.wait() == 1
    assert started.running.err.finish(20)[-1] == "RuntimeError: a test"


# Breaks if a thread of an earlier attempt, which may report or commit for it, lives on.
def test_a_process_with_a_thread_of_the_library_is_not_used_again(program: Callable[[str], Started]) -> None:
    started = program("thread")
    assert started.wait() == -signal.SIGKILL
    assert "the thread holdfast-left does not end" in started.running.err.finish(20)[-1]


# Breaks if rank 0 stops while it serves the store: the others would wait for it when they end their attempt.
def test_a_process_that_keeps_its_process_group_is_not_used_again(program: Callable[[str], Started]) -> None:
    started = program("store")
    assert started.wait() == -signal.SIGKILL
    assert "its process group is still in memory" in started.running.err.finish(20)[-1]


# Breaks if a program whose pod has to go stays, or ends as if it had completed.
def test_a_program_that_must_end_after_an_error_has_an_exit_code(program: Callable[[str], Started]) -> None:
    started = program("peer")
    assert started.wait() is None
    started.launcher.let_end(started.pid)
    assert started.wait() == 1
