"""The program of a pod: its start, the signals that it gets, its end."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.launched import SAVES, TELLS, signal_again, start, start_behind, verdict_of
from tests.support.waiting import wait_for


def test_command_not_found(tmp_path: Path) -> None:
    process = start(tmp_path / "log", "no-such-program")
    process.communicate(timeout=30)
    assert process.returncode == 127
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"]) == ("misconfigured", "CommandNotFound")
    assert "no-such-program" in str(verdict["message"])


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        (b"#!/bin/bash\r\n", "The line ends in CR LF: write the file with LF alone"),
        (b"#!/opt/no-such-python\n", "no-such-python"),
    ],
)
def test_a_script_whose_interpreter_is_missing_is_not_said_to_be_missing(
    tmp_path: Path, first_line: bytes, words: str
) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(first_line + b"echo hi\n")
    script.chmod(0o755)
    process = start(tmp_path / "log", str(script))
    process.communicate(timeout=30)
    verdict = verdict_of(tmp_path / "log")
    assert (process.returncode, verdict["reason"]) == (127, "CommandNotFound")
    assert "is a script whose first line names a program that the image does not have" in str(verdict["message"])
    assert words in str(verdict["message"])


def test_command_that_may_not_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    process = start(tmp_path / "log", str(plain))
    process.communicate(timeout=30)
    assert (process.returncode, verdict_of(tmp_path / "log")["reason"]) == (126, "CommandNotExecutable")


def test_exit_0_after_sigterm_is_drained(tmp_path: Path) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", TELLS % 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


COUNTS = """
import os, signal
told = []
def on_term(number, _frame):
    told.append(number)
    print("told", os.path.exists(os.environ["HOLDFAST_VERDICT_DIR"] + "/leave-now"), flush=True)
    if len(told) == 2: os._exit(3)
for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, on_term)
print("up", flush=True)
while True: signal.pause()
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_passed_on_as_now(tmp_path: Path, first: signal.Signals) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", COUNTS, HOLDFAST_VERDICT_DIR=str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(first)
    assert process.stdout.readline() == "told False\n"
    signal_again(process, tmp_path)
    assert process.stdout.read() == "told True\n"
    assert (process.returncode, verdict_of(tmp_path / "log")["outcome"]) == (3, "drained")


SIGNALLED_AT_ITS_START = """
import os, signal, sys
from pathlib import Path
from holdfast_train.pod.launcher.program import Program, Starter

up, started = Path(sys.argv[1]), Path(sys.argv[2])
counts = '''
import pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)
sys.exit(len(told))
'''

class Late(Starter):
    def start(self, command, environment):
        child = super().start(command, environment)
        while not up.exists(): signal.sigtimedwait([], 0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        return child

command = [sys.executable, "-c", counts, str(up), str(started)]
program = Program(command, dict(os.environ), starter=Late())
print(program.run(None, on_start=started.touch).code)
"""


def test_a_signal_at_the_start_reaches_the_program_once(tmp_path: Path) -> None:
    """Breaks if the launcher, busy on a loaded node, passes on again what its handler has passed on."""
    command = [sys.executable, "-c", SIGNALLED_AT_ITS_START, str(tmp_path / "up"), str(tmp_path / "started")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "1\n"


def test_a_program_that_ignores_the_second_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
    env = {"HOLDFAST_VERDICT_DIR": str(tmp_path), "grace": 3600}
    process = start(tmp_path / "log", sys.executable, "-c", code, **env)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    signal_again(process, tmp_path)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], verdict["signal"]) == ("drained", "LeftWithoutSaving", 9)


def test_after_a_second_signal_the_wait_for_a_writer_is_short(tmp_path: Path) -> None:
    """Breaks if the launcher waits a minute for a commit after the second SIGTERM."""
    (tmp_path / "leave-now").touch()  # of a launcher before this one
    with (tmp_path / "writer-1").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env = {"HOLDFAST_VERDICT_DIR": str(tmp_path), "grace": 3600}
        process = start(tmp_path / "log", sys.executable, "-c", TELLS % 0, **env)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "told\n"
        assert not (tmp_path / "leave-now").exists()
        signal_again(process, tmp_path)
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


def test_a_second_signal_ends_a_trainer_behind_a_shell(tmp_path: Path) -> None:
    """The save behind the shell does not end: the file says "now", and the program is killed after some seconds."""
    program, up = tmp_path / "train.py", tmp_path / "up"
    program.write_text(SAVES)
    script = '"$PYTHON" "$HERE/train.py" "$HERE/up"; echo went on'
    process = start_behind(tmp_path / "log", script, HOLDFAST_VERDICT_DIR=str(tmp_path))
    wait_for(up.exists, 30, "a trainer that handles SIGTERM")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    signal_again(process, tmp_path)
    assert "saved" not in process.stdout.read()
    assert verdict_of(tmp_path / "log")["outcome"] == "drained"


def test_killed_program(tmp_path: Path) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    process.communicate(timeout=30)
    assert process.returncode == 137
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["reason"], verdict["signal"], verdict.get("exitCode")) == ("Signal9", 9, None)


def test_program_gets_verdict_folder_and_torchrun_timeout(tmp_path: Path) -> None:
    code = (
        "import os; v = os.environ; "
        "print(os.path.isdir(v['HOLDFAST_VERDICT_DIR']), v['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'])"
    )
    process = start(tmp_path / "log", sys.executable, "-c", code, grace=100)
    out, _ = process.communicate(timeout=30)
    assert out == "True 90\n"


ENDED_BEFORE = """
import os
from holdfast_train.pod.launcher.program import Program
program, killed = Program(["true"], {"PATH": "/usr/bin:/bin"}), []
end = program.run(None)
os.kill = lambda *arguments: killed.append(arguments)
program.regroup(None)
print(end.code, killed)
"""


# Breaks if an order to end the program of one attempt, which comes late, ends a process of the next one.
def test_nothing_is_killed_after_the_end_of_the_program() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ENDED_BEFORE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.stdout, found.stderr) == ("0 []\n", "")


KILLED = """
from holdfast_train.pod.launcher import program
counts = [4, 6]
program.killed_processes = lambda: counts.pop(0)
print(program.Program(["true"], {"PATH": "/usr/bin:/bin"}).run(None).oom_kills)
"""


# Breaks if what the kernel killed before this program counts, or is not looked at.
def test_processes_that_ran_out_of_memory_count_for_the_program_that_had_them() -> None:
    found = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("2\n", "")


# Breaks if a program that somebody stops (a debugger, `kill -STOP`) counts as one that has ended.
def test_a_program_that_is_stopped_has_not_ended(tmp_path: Path) -> None:
    code = "import os; print(os.getpid(), flush=True); os.kill(os.getpid(), 19); raise SystemExit(4)"
    process = start(tmp_path / "log", sys.executable, "-c", code)
    assert process.stdout is not None
    program = int(process.stdout.readline())
    wait_for(lambda: Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[0] == "T", 30, "the stop")
    os.kill(program, signal.SIGCONT)
    assert process.wait(30) == 4


REGROUPED = """
import math, os
from holdfast_train.pod.launcher.program import Program
from holdfast_train.pod.launcher.verdict import classify
program, killed = Program(["no-such-program"], {}), []
os.kill = lambda *arguments: killed.append(arguments)
assert program.given_up() is None
program.end_left()
program.regroup(None)
for end in program.given_up(), program.run(None):
    print(classify(end).reason, end.start_error, math.isinf(program.deadline), killed)
"""


# Breaks if a program starts although an order to regroup came before, or if that order, or a writer that is fenced,
# kills the group of processes of the launcher: its program has no number yet.
def test_an_order_to_regroup_before_the_start() -> None:
    found = subprocess.run([sys.executable, "-c", REGROUPED], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == (2 * "Regrouped None False []\n", "")


BESIDE = """
import contextlib, os, signal, sys
from holdfast_train.pod.launcher.program import Beside, Program
from holdfast_train.pod.launcher.signals.forwarding import Forwarding
from holdfast_train.pod.rank_verdict import write_rank_verdict

class Writer(Beside):
    is_held = False
    def has_written(self, verdict): return verdict.rank == 0
    @contextlib.contextmanager
    def unchanged(self):
        self.is_held = True
        yield
        self.is_held = False

Forwarding.forward = lambda *_, spares_ranks, **__: print("spares ranks:", spares_ranks)
program = Program(["true"], {"PATH": "/usr/bin:/bin"})
program.beside = writer = Writer()
folder, rank = sys.argv[1], int(sys.argv[2])
write_rank_verdict(folder, rank, "saved")
signalled = lambda: program._on_signal(signal.SIGTERM, None)
program.run(folder, on_start=signalled, end_rest=lambda: print("held:", writer.is_held))
"""


# Breaks if a process that has just taken the place of a writer is killed with what the program leaves, because nobody
# knows its number yet; or if torchrun, which ends its ranks, gets the signal because a writer has written a verdict.
@pytest.mark.parametrize("rank", [0, 1])
def test_a_writer_is_no_rank_and_is_not_replaced_while_the_rest_of_the_program_ends(tmp_path: Path, rank: int) -> None:
    command = [sys.executable, "-c", BESIDE, str(tmp_path), str(rank)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == (f"spares ranks: {rank == 0}\nheld: True\n", "")
