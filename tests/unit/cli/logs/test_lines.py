"""Cutting logs into lines: nothing is missing and nothing comes twice, wherever readings break off."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_cli.logs.lines import LONGEST, REWRITTEN, Cutter, Line, Position, last_state, parse_stamp

BEGIN = datetime(2026, 11, 21, 9, tzinfo=UTC)
TEXTS = st.one_of(
    st.binary(max_size=20).map(lambda text: text.replace(b"\n", b" ")),
    st.sampled_from(
        [b"", b" ", b"\r 10%\r 20%", b"\x1b[1mbold\x1b[0m", b"x" * (REWRITTEN + 9), b"\r50%" * (REWRITTEN // 3)]
    ),
)
# A time in tenths of a second after the line before, often the same one, and the text.
LINES = st.lists(st.tuples(st.sampled_from([0, 0, 1, 9, 25]), TEXTS), max_size=8)


def log(lines: list[tuple[int, bytes]]) -> list[tuple[str, bytes]]:
    """The seconds and the bytes of each line, as a kubelet gives them."""
    at, found = BEGIN, []
    for pause, text in lines:
        at += timedelta(milliseconds=100 * pause)
        found.append((f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%dT%H:%M:%S.%f000Z} ".encode() + text + b"\n"))
    return found


def whole(lines: list[tuple[str, bytes]]) -> list[Line]:
    """The lines of one reading without a break."""
    return list(Cutter(Position()).feed(b"".join(data for _, data in lines)))


# Breaks if a line is lost or comes twice when a stream breaks off anywhere and is read again since a whole second, or
# if what is shown depends on the pieces in which the log arrives.
@given(lines=LINES, data=st.data())
def test_readings_that_break_off_give_every_line_once(lines: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stored, shown, position = log(lines), list[Line](), Position()
    for _ in range(data.draw(st.integers(0, 4))):
        since = position.since() if position.at else ""
        answer = b"".join(part for second, part in stored if second >= since)
        read = answer[: data.draw(st.integers(0, len(answer)))]
        cutter = Cutter(position)
        cut = data.draw(st.integers(0, len(read)))
        shown += [*cutter.feed(read[:cut]), *cutter.feed(read[cut:])]
        position = cutter.position
    last = Cutter(position)
    since = position.since() if position.at else ""
    shown += last.feed(b"".join(part for second, part in stored if second >= since))
    assert shown == whole(stored)


# Breaks if lines that a rotation took away make the reading drop the lines after them.
def test_a_log_that_was_rotated_goes_on_after_the_gap() -> None:
    stored = log([(1, b"a"), (0, b"b"), (30, b"c"), (0, b"d")])
    cutter = Cutter(Position())
    list(cutter.feed(b"".join(part for _, part in stored[:2])))
    again = Cutter(cutter.position)
    assert [line.text for line in again.feed(b"".join(part for _, part in stored[2:]))] == [b"c", b"d"]


# Breaks if a program that writes without ends of lines takes all memory, or loses bytes.
@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1, 2 * LONGEST + 7])
def test_a_line_without_an_end_is_shown_in_pieces(size: int) -> None:
    cutter, text = Cutter(Position()), b"0123456789" * (size // 10 + 1)
    shown = [*cutter.feed(b"2026-11-21T09:00:00Z " + text[:size]), *cutter.feed(b"\n")]
    assert b"".join(line.text for line in shown) == text[:size]
    assert max(len(line.text) for line in shown) <= LONGEST
    assert cutter.position.count == 1


# Breaks if a progress bar is shown with all of its states, or an hour of it with none.
def test_of_a_rewritten_line_the_last_state_is_shown() -> None:
    assert last_state(b"\r 10%\r 20%\r 100%") == b" 100%"
    assert last_state(b"a line of Windows\r") == b"a line of Windows"
    assert last_state(b"\r 100%\r       ") == b" 100%"
    assert last_state(b"   ") == b"   "
    states = b"".join(b"\r%6d" % number for number in range(5000))
    shown = whole([("", b"2026-11-21T09:00:00Z " + states + b"\n")])
    assert shown[-1].text == b"  4999"
    assert len(shown) == len(states) // REWRITTEN + 1


# Breaks if the last words of a program that ends in the middle of a line are lost, or come twice.
def test_the_end_of_a_log_without_an_end_of_line() -> None:
    cutter = Cutter(Position())
    assert list(cutter.feed(b"2026-11-21T09:00:00Z killed")) == []
    assert [line.text for line in cutter.end()] == [b"killed"]
    assert list(cutter.end()) == []
    assert list(Cutter(cutter.position).feed(b"2026-11-21T09:00:00Z killed")) == []


# Breaks if times of nodes in other zones, or with other numbers of digits, do not sort as times.
def test_stamps_sort_by_time() -> None:
    stamps = [b"2026-11-21T09:00:00Z", b"2026-11-21T09:00:00.5Z", b"2026-11-21T10:00:00.500000001+01:00"]
    assert [parse_stamp(one) for one in stamps] == [
        b"2026-11-21T09:00:00.000000000Z",
        b"2026-11-21T09:00:00.500000000Z",
        b"2026-11-21T09:00:00.500000001Z",
    ]
    assert parse_stamp(b"unable") is None


# Breaks if a kept log that somebody has forged ends the command.
@pytest.mark.parametrize(
    "time", ["2026-99-99T99:99:99+01:00", "2026-11-21T09:00:00+99:99", "0001-01-01T00:00:00+12:00"]
)
def test_a_time_that_no_calendar_has_is_text(time: str) -> None:
    assert [line.text for line in Cutter(Position()).feed(f"{time} a\n".encode())] == [f"{time} a".encode()]


# Breaks if what a kubelet says in place of a log is taken for a time and a text, or counts as a line of the log.
def test_a_line_without_a_time_is_shown_as_it_is() -> None:
    cutter = Cutter(Position())
    shown = list(cutter.feed(b"unable to retrieve container logs for containerd://1\n2026-11-21T09:00:00Z a\n"))
    assert [line.text for line in shown] == [b"unable to retrieve container logs for containerd://1", b"a"]
    assert cutter.position.count == 1
