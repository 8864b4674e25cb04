"""Two commands never work on the same thing at once, and a killed holder blocks no one."""

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import Timeout

from holdfast_local.locking import exclusive

HOLDER = """
import sys, pathlib
from holdfast_local.locking import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_a_held_lock_is_refused_without_waiting(path: Path) -> None:
    with exclusive(path), pytest.raises(Timeout), exclusive(path, wait=False):
        pass


def test_a_killed_holder_frees_the_lock_and_a_waiter_says_that_it_waits(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        told: list[bool] = []

        def waiting() -> None:
            told.append(True)
            holder.kill()

        with exclusive(path, waiting):
            assert told == [True]


def test_a_lock_file_that_was_removed_while_waiting_guards_nothing(path: Path) -> None:
    with exclusive(path):
        path.unlink()
        with exclusive(path, wait=False):
            assert path.exists()
