"""The line below a log: how often it is drawn, and what is left of it."""

import re

import pytest
from rich.text import Text

from holdfast_cli.terminal import bottom_line
from holdfast_cli.terminal.bottom_line import MOST_WAITING, BottomLine

DRAWN = re.compile(rb"\x1b7\x1b\[m([^\x1b]*)\x1b8")


class Clock:
    """Stands for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(bottom_line, "time", found)
    return found


Out = pytest.CaptureFixture[bytes]


# Breaks if a burst of lines is slowed by the line, which is drawn after each of them, or loses or reorders a line.
def test_a_burst_is_written_in_few_pieces(clock: Clock, capsysbinary: Out) -> None:
    below = BottomLine(lambda: Text("state"))
    lines = [b"line %d\n" % number for number in range(10_000)]
    for line in lines:
        below.write(line)
        below.flush()
        clock.now += 1 / len(lines)
    below.close(stays=False)
    written = capsysbinary.readouterr().out
    assert len(DRAWN.findall(written)) == 4
    assert DRAWN.sub(b"", written).replace(b"\r\x1b[J", b"") == b"".join(lines)


# Breaks if the first line after a quiet time waits, or if the same state is drawn again and again.
def test_a_quiet_log_is_written_at_once(clock: Clock, capsysbinary: Out) -> None:
    below = BottomLine(lambda: Text("state"))
    below.flush()
    for _ in range(100):
        clock.now += 1
        below.flush()
    assert DRAWN.findall(capsysbinary.readouterr().out) == [b"state"]
    below.write(b"line\n")
    below.flush()
    assert capsysbinary.readouterr().out == b"\r\x1b[Jline\n\x1b7\x1b[mstate\x1b8"


# Breaks if lines that nobody flushes fill the memory.
def test_many_bytes_do_not_wait(clock: Clock, capsysbinary: Out) -> None:
    below = BottomLine(lambda: None)
    below.write(b"x" * MOST_WAITING)
    assert not capsysbinary.readouterr().out
    below.write(b"\n")
    assert capsysbinary.readouterr().out == b"x" * MOST_WAITING + b"\n"
