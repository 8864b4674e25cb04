"""Programs that catch errors, and end with exit code 0: complete only if their Run ended complete."""

import sys
from pathlib import Path
from typing import Final

import pytest
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, variables

HEAD: Final = """
import os, sys
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

class Unsavable(Counter):
    def state_dict(self): return {"it": object()}

class Enough(Exception): pass

def steps(run):
    for step in run.steps(5):
        if step == 3: yield step

"""
WITHOUT_AN_END: Final = [
    ("StateInvalid", "try:\n with Run(it=Unsavable()) as run:\n  list(run.steps(5))\nexcept BaseException: pass"),
    (
        "UserException",
        "try:\n with Run(it=Counter()) as run:\n  for _ in steps(run): raise Enough\nexcept Enough: pass",
    ),
    ("RunNotEnded", "with Run(it=Counter()) as run:\n for _ in steps(run): os._exit(0)"),
]
COMPLETE: Final = [
    "with Run(it=Counter()) as run:\n for _ in steps(run): break",
    "with Run(it=Counter()) as run:\n for _ in steps(run): sys.exit(0)",
    "with Run(it=Counter()) as run:\n for _ in steps(run):\n  try: raise Enough\n  except Enough: pass",
    "try:\n with Run(it=Counter()): raise Enough\nexcept Enough:\n with Run(it=Counter()) as run: list(steps(run))",
    "with Run(it=Counter()) as run: list(steps(run))\ntry: raise Enough\nexcept Enough: pass",
    "try: raise Enough\nexcept Enough: pass",
]


def pod(folder: Path, program: str) -> Pod:
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, "-c", HEAD + program]
    return Pod(folder, command, **variables(f"file://{folder}/prefix"))


@pytest.mark.parametrize(("reason", "program"), WITHOUT_AN_END)
def test_a_run_without_an_end_is_not_complete(tmp_path: Path, reason: str, program: str) -> None:
    """Breaks if a training that is not complete, and whose last steps are lost, is shown as Completed."""
    ended = pod(tmp_path, program)
    verdict = ended.end()
    assert (verdict["outcome"], verdict["reason"], verdict["exitCode"]) == ("failed", reason, 0), ended.output
    assert "exit code 0, but its training is not complete" in verdict["message"]
    assert ended.process.returncode == 1  # also for those that see the exit code alone


@pytest.mark.parametrize("program", COMPLETE)
def test_errors_that_do_not_end_the_run_are_the_programs_own(tmp_path: Path, program: str) -> None:
    """Breaks if a program that deals with its errors, tries again, or ends early is not complete."""
    ended = pod(tmp_path, program)
    assert (ended.end()["outcome"], ended.process.returncode) == ("completed", 0), ended.output
