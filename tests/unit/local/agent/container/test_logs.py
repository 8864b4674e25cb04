"""Container logs."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast_local.agent.container import logs


def _shown(entries: list[logs.Entry]) -> bytes:
    return b"".join(entry.shown(timestamp=False) for entry in entries)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Would break: lines cut at the borders of reads, an end without a newline, empty lines."""
    log = logs.ContainerLog(tmp_path / "a.log")
    for chunk in (b"one\ntw", b"o\n\n\xff\nend", b""):
        log.feed(chunk)
    assert _shown(logs.read(tmp_path / "a.log")) == b"one\ntwo\n\n\xff\nend"
    assert log.closed


def test_long_lines_are_split_and_joined_again(tmp_path: Path) -> None:
    """Would break: a progress bar without newlines fills the memory of the agent."""
    log = logs.ContainerLog(tmp_path / "a.log")
    text = b"x" * 100_000
    log.feed(text[:60_000])
    log.feed(text[60_000:] + b"\nnext\n")
    stored = logs.read(tmp_path / "a.log")
    assert _shown(stored) == text + b"\nnext\n"
    assert _shown(logs.select(stored, tail=1, since=None)) == b"next\n"
    assert _shown(logs.select(stored, tail=2, since=None)) == text + b"\nnext\n"


def test_a_full_log_is_rotated(tmp_path: Path) -> None:
    """Would break: a chatty program fills the disk."""
    log = logs.ContainerLog(tmp_path / "a.log", cap=1000)
    for number in range(200):
        log.feed(f"line {number}\n".encode())
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size < 2200
    kept = _shown(logs.read(tmp_path / "a.log")).splitlines()
    assert kept[-1] == b"line 199"
    assert kept == [f"line {number}".encode() for number in range(200 - len(kept), 200)]


@pytest.mark.parametrize(("tail", "expected"), [(None, b"1\n2\n3"), (0, b""), (1, b"3"), (2, b"2\n3"), (9, b"1\n2\n3")])
def test_tail(tmp_path: Path, tail: int | None, expected: bytes) -> None:
    """Would break: `kubectl logs --tail`."""
    log = logs.ContainerLog(tmp_path / "a.log")
    log.feed(b"1\n2\n3")
    log.feed(b"")
    assert _shown(logs.select(logs.read(tmp_path / "a.log"), tail=tail, since=None)) == expected


def test_since() -> None:
    """Would break: `kubectl logs --since`."""
    entries = [logs.Entry(f"2026-01-01T00:00:0{second}.000000000Z", b"x", whole=True) for second in range(5)]
    since = datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert len(logs.select(entries, tail=None, since=since)) == 2
    assert logs.since_time(since, 3, None) == since - timedelta(seconds=3)
    assert logs.since_time(since, None, "2026-01-01T00:00:03Z") == since


async def test_a_follower_misses_nothing_and_ends_with_the_log(tmp_path: Path) -> None:
    """Would break: `kubectl logs -f`."""
    log = logs.ContainerLog(tmp_path / "a.log")
    log.feed(b"before\n")
    started = asyncio.Event()
    seen: list[bytes] = []

    async def follow() -> None:
        async for batch in log.news():
            seen.append(_shown(batch))
            started.set()

    task = asyncio.create_task(follow())
    await started.wait()
    log.feed(b"one\n")
    log.feed(b"two\nthree")
    log.feed(b"")
    await asyncio.wait_for(task, 5)
    assert b"".join(seen) == b"one\ntwo\nthree"
