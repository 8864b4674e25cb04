"""Calls in threads and loops of their own: what comes back, and what ends when nobody listens any more."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast_cli.client import calling
from holdfast_cli.client.calling import call, call_blocking, stream
from holdfast_cli.errors import CliError


async def answer() -> int:
    await asyncio.sleep(0)
    return 3


# Breaks if a notebook, whose thread runs an event loop, cannot call anything.
async def test_a_call_inside_a_running_loop() -> None:
    assert call(answer) == 3
    assert call_blocking(lambda: asyncio.run(answer())) == 3


# Breaks if an error of a call is lost, or becomes another one.
def test_an_error_comes_back_as_it_is() -> None:
    async def fails() -> None:
        raise CliError("no")

    with pytest.raises(CliError, match=r"^no$"):
        call(fails)


# Breaks if Ctrl-C in a notebook leaves a call at work behind it.
def test_an_interrupted_call_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def works() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def ignore_the_end(work: Callable[[], object]) -> None:
        with suppress(asyncio.CancelledError):
            work()

    def interrupted(work: Callable[[], object]) -> object:
        threading.Thread(target=ignore_the_end, args=(work,), daemon=True).start()
        assert begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(calling, "call_blocking", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(works)
    assert cancelled.wait(30)


# Breaks if values of a stream are lost or out of order, or if its error is.
def test_a_stream_gives_all_values_and_then_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "MOST_HELD", 2)  # the writer waits for the reader

    async def counts(put: Callable[[int], None]) -> None:
        for number in range(20):
            put(number)
        raise CliError("the end")

    found = []
    with pytest.raises(CliError, match="the end"):
        for number in stream(counts):
            found.append(number)
    assert found == list(range(20))


# Breaks if a log that nobody reads any more is followed on, or if its writer waits for ever for a reader.
def test_a_closed_stream_ends_its_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "MOST_HELD", 2)
    cancelled = threading.Event()

    async def counts(put: Callable[[int], None]) -> None:
        try:
            while True:
                put(1)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    lines = stream(counts)
    assert next(lines) == 1
    lines.close()  # type: ignore[attr-defined]
    assert cancelled.wait(30)
