"""`holdfast rehearse` on this machine: real programs, the real launcher, and a storage in a folder."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

LOOP = REPOSITORY / "tests/support/trainer/strangers/small_loop.py"
PRINTS = ("--quiet", "1s", "--progress", "step {step}/{total} loss={loss}")  # the launcher looks once a second
SILENT = ("--quiet", "200ms")


def command(*options: str, faults: tuple[str, ...] = (), steps: int = 60, seconds: float = 0.05) -> list[str]:
    return [
        *(sys.executable, "-m", "holdfast_cli", "rehearse", "--folder", "out", *options),
        *("--", sys.executable, str(LOOP), "out", str(steps), str(seconds), *faults),
    ]


def rehearse(place: Path, *options: str, code: int = 0, **of_program: Any) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command(*options, **of_program), cwd=place, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def answer(place: Path, *options: str, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rehearse(place, "-o", "json", *options, **how).stdout)
    return found


# Breaks if a program that resumes bit for bit is said to differ, if an interruption is left out, or if something stays
# behind.
def test_an_exact_program(tmp_path: Path) -> None:
    found = answer(tmp_path, *SILENT)
    assert found["passed"] is True
    assert found["verdict"]["kind"] == "exact"
    assert [one["kind"] for one in found["interruptions"]] == ["notice", "crash", "crash-in-save", "lost-node"]
    assert found["notTried"] == {}
    assert found["notSaved"] == {"excluded": {}, "outside": [], "unknown": ""}
    assert not any(tmp_path.iterdir())


# Breaks if steps that were lost are not counted, or if losses are not compared step by step.
@pytest.mark.thorough
def test_an_exact_program_that_prints_its_steps(tmp_path: Path) -> None:
    found = answer(tmp_path, *PRINTS)
    assert found["verdict"]["kind"] == "exact"
    notice, *others = found["interruptions"]
    assert notice["lostSteps"] == 0
    assert all(0 <= one["lostSteps"] <= 6 for one in others)
    assert "loss of 60 steps" in found["verdict"]["headline"]


# Breaks if a fault of a program is not found, or if the rehearsal blames the wrong thing.
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("forgets-speeds", "the state of the optimizer"),
        pytest.param("forgets-data", "random generator", marks=pytest.mark.thorough),
        pytest.param("begins-again", "began with step 1 all the same", marks=pytest.mark.thorough),
        pytest.param("cannot-load", "the save cannot be loaded", marks=pytest.mark.thorough),
    ],
)
def test_a_program_with_a_fault(tmp_path: Path, fault: str, words: str) -> None:
    done = rehearse(tmp_path, *PRINTS, "--with", "crash", code=1, faults=(fault,), steps=25)
    assert words in done.stdout
    assert "crash" in done.stdout


# Breaks if a program that does not resume passes, because it does not say its steps.
@pytest.mark.thorough
def test_a_program_that_begins_again_without_a_word(tmp_path: Path) -> None:
    found = answer(tmp_path, *SILENT, "--with", "crash", code=1, faults=("begins-again",), steps=40)
    assert found["verdict"]["kind"] == "failed"
    assert "trained again" in found["verdict"]["headline"]


# Breaks if a program that takes no notice of SIGTERM is not named.
def test_a_program_that_ignores_the_notice(tmp_path: Path) -> None:
    done = rehearse(tmp_path, *SILENT, "--with", "notice", "--grace", "2s", faults=("ignores-signal",), steps=25)
    assert "notice: the program did not end within the grace of 2 s" in done.stdout


# Breaks if a program that never does the same twice is said to differ because of an interruption.
@pytest.mark.thorough
def test_a_program_without_a_seed(tmp_path: Path) -> None:
    found = answer(tmp_path, *PRINTS, "--with", "crash", code=1, faults=("unseeded",), steps=15)
    assert found["verdict"]["kind"] == "not-proved"


# Breaks if a program with Run cannot be rehearsed, or if its checkpoints are not compared.
@pytest.mark.thorough
def test_a_program_with_run(tmp_path: Path) -> None:
    program = ("-m", "holdfast_train.examples.stub", "--step-seconds", "0.3")
    line = [sys.executable, "-m", "holdfast_cli", "rehearse", "--steps", "40", "--every", "5", "-o", "json", "--"]
    done = subprocess.run(
        [*line, sys.executable, *program], cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"]["kind"] == "exact"
    assert [one["kind"] for one in found["interruptions"]] == ["notice", "crash", "crash-in-save", "lost-node"]


# Breaks if processes that a program leaves go on, or can write into the folder of its next start.
def test_a_program_that_leaves_processes(tmp_path: Path) -> None:
    left = "import pathlib, time\nwhile True: pathlib.Path('alive').touch(); time.sleep(0.05)"
    script = f'setsid {sys.executable} -c "{left}" & exec "$0" "$@"'
    line = command(*SILENT, "--with", "lost-node", steps=15)
    at = line.index("--")
    wrapped = [*line[: at + 1], "sh", "-c", script, *line[at + 1 :]]
    done = subprocess.run(wrapped, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr
    assert (tmp_path / "alive").exists()
    assert not [one for one in psutil.process_iter() if left in _words(one)]


# Breaks if it is not said that a file is on this machine alone.
def test_a_program_that_writes_outside(tmp_path: Path) -> None:
    found = answer(tmp_path, *SILENT, "--with", "lost-node", faults=("outside",), steps=25, code=1)
    assert found["notSaved"]["outside"] == ["best.txt"]
    assert found["verdict"]["kind"] == "not-proved"
    assert "best.txt" in found["verdict"]["headline"]
    (tmp_path / "best.txt").unlink()
    assert answer(tmp_path, *SILENT, "--with", "lost-node", "--ignore", "best.*", faults=("outside",), steps=25)[
        "passed"
    ]


# Breaks if a rehearsal of a program that cannot be rehearsed takes all its runs, or ends with a traceback.
@pytest.mark.parametrize(
    ("faults", "words"),
    [(("fails",), "exit code 3"), (("never-saves",), "0 saves were committed"), (("hasty",), "committed while")],
)
def test_a_program_that_cannot_be_rehearsed(tmp_path: Path, faults: tuple[str, ...], words: str) -> None:
    done = rehearse(tmp_path, code=1, faults=faults, steps=6, seconds=0.01)
    assert words in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not any(tmp_path.iterdir())


# Breaks if Ctrl-C leaves a program that trains, or files.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    process = psutil.Popen(command(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    programs: list[psutil.Process] = []

    def runs() -> bool:
        programs[:] = [one for one in process.children(recursive=True) if str(LOOP) in _words(one)]
        return len(programs) > 1  # the launcher and the program

    wait_for(runs, 60, "the program")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    _, alive = psutil.wait_procs(programs, timeout=10)
    assert not alive
    assert not any(tmp_path.iterdir())


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


# Breaks if an option that cannot work is found out after minutes.
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--progress", "loss {lost}"], "--progress"),
        ([*PRINTS, *SILENT], "must be at least 1s"),
        (["--with", "earthquake"], "earthquake"),
        (["--grace", "soon"], "--grace"),
        (["--steps", "9"], "only for a program with Run"),
        (["--keep", "out/kept"], "lie in each other"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], words: str) -> None:
    done = rehearse(tmp_path, *options, code=2)
    assert words in done.stderr
    assert not any(tmp_path.iterdir())


# Breaks if a program that is not there is reported with a traceback.
def test_no_such_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast_cli", "rehearse", "--folder", "out", "--", "no-such-program"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "no-such-program" in done.stderr
