"""What the program prints: it goes on to the log, and the verdict has its last lines."""

import sys
from pathlib import Path

from tests.support.trainer.launched import start, verdict_of


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
