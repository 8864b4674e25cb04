"""Failed tests run once more, alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.repeat_failed import main

ROOT = Path(__file__).parents[3]
Run = Callable[..., tuple[int, str]]
ONCE = """
from pathlib import Path

def test_good():
    pass

def test_flaky():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""

CRASH = """
import os
from pathlib import Path

def test_crash():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        os._exit(9)
"""
NOT_COLLECTED = """
from pathlib import Path

seen = Path(__file__).with_name("seen")
with seen.open("a") as file:
    file.write("x")
assert len(seen.read_text()) > 1

def test():
    pass
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the tests in a text: the exit status, and what was printed."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each run starts in half the time

    def run(text: str, *options: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(text)
        place = ("--rootdir", str(tmp_path), "-c", os.devnull, "-p", "xdist.plugin")
        status = main([*place, *options, str(tmp_path)])
        return status, "".join(capfd.readouterr())

    return run


def test_a_test_that_passes_alone_is_named_and_the_run_is_green(run: Run) -> None:
    """Would break: one test of thousands that had too little time stops a change; or nobody hears of it."""
    code, text = run(ONCE, "-n", "1", "--dist", "worksteal")
    assert code == 0, text
    assert [line for line in text.splitlines() if line.startswith("flaky: ")] == ["flaky: test_it.py::test_flaky"]
    assert "1 failed, 1 passed" in text
    assert "1 passed" in text.splitlines()[-2], "the second run had only the one that failed"


def test_a_test_that_fails_again_is_red(run: Run) -> None:
    """Would break: a broken test is repeated away, or one that passes hides it."""
    code, text = run(f"{ONCE}\ndef test_broken():\n    assert False\n")
    assert code == 1, text
    assert "flaky: test_it.py::test_flaky" in text
    assert "flaky: test_it.py::test_broken" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import nothing_of_this_name", 2),
        ("import pytest\n\n@pytest.mark.parametrize('n', range(11))\ndef test(n):\n    assert False", 1),
        ("", 5),
    ],
)
def test_other_ends_are_not_repeated(run: Run, text: str, expected: int) -> None:
    """Would break: minutes are spent on a run that is broken as a whole, or its status is lost."""
    code, output = run(text)
    assert code == expected, output
    assert "once more" not in output


# Breaks if a run that stopped at its first failed test is green: most of its tests were never run.
def test_a_run_that_stopped_early_is_not_repeated(run: Run) -> None:
    code, output = run(f"{ONCE}\ndef test_later():\n    assert False\n", "-x", "-n", "1")
    assert code == 2, output
    assert "once more" not in output


@pytest.mark.parametrize(("text", "expected"), [(CRASH, 2), (NOT_COLLECTED, 1)])
def test_what_workers_could_not_run_is_not_repeated(run: Run, text: str, expected: int) -> None:
    """Would break: a file that could not be collected, or a dead process, is called flaky, and the run is green."""
    code, output = run(text, "-n", "1", "--dist", "worksteal")
    assert code == expected, output
    assert "once more" not in output
    assert "flaky" not in output
