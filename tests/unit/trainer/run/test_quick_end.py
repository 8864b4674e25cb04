"""A process whose Run has left ends without a search for garbage, and otherwise as any other process."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, os, sys
from holdfast_train.run import quick_end

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


@pytest.mark.parametrize(
    ("how", "said"), [("left", ""), ("completed", "garbage is freed"), ("forked", "garbage is freed")]
)
def test_a_process_that_has_left_ends_quickly(tmp_path: Path, how: str, said: str) -> None:
    """Breaks if the end of a program with torch takes a second, or if what a program writes at its end gets lost."""
    file = tmp_path / "file"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(file), how], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, said)
    assert done.stderr == "the program's function of atexit\n"
    assert file.read_text() == "the last line"
