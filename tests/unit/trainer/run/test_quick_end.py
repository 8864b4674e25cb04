"""A process whose Run has left ends without a search for garbage, and otherwise as any other process."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.runs import train
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.examples.stub import Counter
from holdfast_train.run import quick_end

PROGRAM = """
import atexit, gc, logging.handlers, os, sys
atexit.register(lambda: print("a function from before the import", file=sys.stderr))
from holdfast_train.run import quick_end

logging.getLogger().addHandler(logging.handlers.MemoryHandler(9, target=logging.StreamHandler()))
logging.warning("the last record")
if sys.argv[3] == "loud":  # objects of a module that nanobind has made
    loud = type("nb_func", (), {"__module__": "nanobind"})()
    loud.itself = loud
    gc.collect()

class Loud:
    def __del__(self):
        os.write(1, b"garbage is freed")

garbage = Loud()
garbage.itself = garbage
atexit.register(lambda: print("the program's function of atexit", file=sys.stderr))
file = open(sys.argv[1], "w")
file.write("the last line")
if sys.argv[2] == "left":
    quick_end.end_quickly()
if sys.argv[2] == "forked":
    quick_end._processes.add(os.getppid())
sys.exit(3)
"""


@pytest.mark.parametrize("how", ["completed", "left", "failed", "fenced"])
def test_all_ends_but_that_of_the_training_are_quick(uri: str, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Breaks if the next attempt waits for the end of a process that has left or failed."""
    processes: set[int] = set()
    if how == "fenced":
        train(environment(uri, 2), 5, stop=3)
    monkeypatch.setattr(quick_end, "_processes", processes)
    if how in ("completed", "left"):
        train(environment(uri), 5, stop=3 if how == "left" else None)
    else:
        with pytest.raises(ValueError if how == "failed" else SystemExit):
            fail(uri)
    assert bool(processes) is (how != "completed")


def fail(uri: str) -> None:
    """A Run that fails at its first step."""
    with Run(counter=Counter(), environment=environment(uri)) as run:
        for _ in run.steps(5):
            raise ValueError("bad batch")


@pytest.mark.parametrize(
    ("how", "said"), [("left", ""), ("completed", "garbage is freed"), ("forked", "garbage is freed")]
)
def test_a_process_that_has_left_ends_quickly(tmp_path: Path, how: str, said: str) -> None:
    """Breaks if the end of a program with torch takes a second, or if what a program writes at its end gets lost."""
    file = tmp_path / "file"
    done = ended(file, how, "quiet")
    assert (done.returncode, done.stdout) == (3, said)
    assert done.stderr.splitlines() == [
        "the program's function of atexit", "a function from before the import", "the last record",
    ]  # fmt: skip
    assert file.read_text() == "the last line"


@pytest.mark.parametrize(("how", "rest"), [("left", []), ("completed", ["a function from before the import"])])
def test_a_library_that_reports_what_is_left_is_silenced(tmp_path: Path, how: str, rest: list[str]) -> None:
    """Breaks if the reports hide why the program failed, or if its last records get lost with them."""
    said = ended(tmp_path / "file", how, "loud").stderr.splitlines()
    assert sorted(said) == sorted(["the program's function of atexit", "the last record", *rest])


def ended(file: Path, how: str, library: str) -> subprocess.CompletedProcess[str]:
    """How PROGRAM ended."""
    command = [sys.executable, "-c", PROGRAM, str(file), how, library]
    return subprocess.run(command, capture_output=True, text=True, check=False)
