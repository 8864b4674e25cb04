"""What the program prints: it goes on to the log, and the verdict has its last lines."""

import sys
import time
from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of

from holdfast_train.pod.launcher.tee import plain


def test_failure_shows_last_lines_and_passes_output_on(tmp_path: Path) -> None:
    code = "import sys; print('out'); [print('line', i, file=sys.stderr) for i in range(50)]; raise ValueError('bad')"
    process = start(tmp_path / "log", sys.executable, "-c", code)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == "out\n"
    assert "line 0\n" in err
    verdict = verdict_of(tmp_path / "log")
    assert verdict["outcome"] == "failed"
    lines = verdict["lastLines"]
    assert isinstance(lines, list)
    assert len(lines) == 20
    assert lines[-1] == "ValueError: bad"


def test_orphan_that_keeps_the_pipe_open_does_not_keep_the_pod(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '60']); raise SystemExit(3)"
    process = start(tmp_path / "log", sys.executable, "-c", code)
    assert process.wait(timeout=20) == 3
    assert verdict_of(tmp_path / "log")["exitCode"] == 3


# Breaks if the end of a long line is lost: after a command that failed, it is the exit code.
def test_a_long_line_keeps_its_end(tmp_path: Path) -> None:
    process = start(tmp_path / "log", sys.executable, "-c", "raise SystemExit('begin' + 'x' * 9000 + 'end')")
    process.communicate(timeout=30)
    lines = verdict_of(tmp_path / "log")["lastLines"]
    assert isinstance(lines, list)
    assert [(len(line), line[:6], line[-4:]) for line in lines] == [(512, "beginx", "xend")]


# Breaks if what a program prints can move the cursor of who reads its last lines, or set the title of the window.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mERROR\x1b[0m: bad\tthing", "ERROR: bad\tthing"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07a\x1b]8;;https://x\x1b\\b", "ab"),
        ("\x1bM\x9b31mx\x00\x7f", "31mx"),
        ("ümlaut 漢字 ✓", "ümlaut 漢字 ✓"),
        ("\x1b[", "["),
    ],
)
def test_text_without_sequences(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_any_text_takes_little_time() -> None:
    began = time.thread_time()
    for text in ("\x1b[" * 100_000, "\x1b]" * 100_000, "\x1b[" + "1" * 200_000, "\x1b]" + "\x1b" * 200_000):
        assert "\x1b" not in plain(text)
    assert time.thread_time() - began < 5
