"""What a stream sends: only what changed, and nothing without bound to a browser that does not read."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast_cli.pages.jobs_page import FILTER, TABLE
from holdfast_cli.pages.page import Chart, Curve, Fragment, Page
from holdfast_cli.ui import stream as module
from holdfast_cli.ui.drawn import Drawn
from holdfast_cli.ui.pulse import Pulse
from holdfast_cli.ui.stream import Stream, rows_change
from holdfast_model.pages.template import Markup

CHART = Chart("loss", "Interruption", "step", "", (Curve("loss", (1, 2), (0.5, 0.4)),))


def fragment(name: str, html: str) -> Fragment:
    return Fragment(name, Markup(html))


PAGE = Page("Jobs", (fragment("head", "a"), fragment(FILTER, "typed"), fragment(TABLE, "empty")))


def drawn(
    head: str = "a", rows: dict[str, str] | None = None, charts: tuple[Chart, ...] = (), table: str = "empty"
) -> Drawn:
    fragments = (fragment("head", head), fragment(FILTER, head), fragment(TABLE, table))
    return Drawn(replace(PAGE, fragments=fragments, charts=charts), [fragment(*one) for one in (rows or {}).items()])


class World:
    """The parts of a cluster that a stream uses, a view of it, and a browser that may read nothing."""

    def __init__(self) -> None:
        self.pulse, self.trouble = Pulse(), ""
        self.path, self.has_ages = "/jobs", False
        self.now: Drawn | None = drawn()
        self.sent: list[str] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def draw(self) -> Drawn | None:
        return self.now

    async def write(self, data: bytes) -> None:
        await self.reads.wait()
        self.sent.append(data.decode())

    async def has_sent(self, count: int) -> None:
        while len(self.sent) < count:  # noqa: ASYNC110 - a browser has no event either
            await asyncio.sleep(0.001)

    def stream(self) -> Stream:
        world: Any = self
        return Stream(world, world, world)


def changes(*several: Drawn) -> list[dict[str, Any]]:
    """What one stream sends for one state after the other."""
    found, stream = [], World().stream()
    for one in several:
        text = stream.change(one, "")
        found.append(json.loads(text) if text else {})
    return found


def test_everything_comes_first_but_what_the_user_types_into() -> None:
    (first,) = changes(drawn(rows={"a": "<tr>1"}))
    assert set(first["fragments"]) == {"head", TABLE, "banner", "actions"}
    assert first["rows"]["changed"] == "<tr>1"
    assert first["rows"]["order"] == ["a"]


def test_only_what_changed_follows() -> None:
    """Breaks if a whole page is sent for each change: a thousand rows a second."""
    _, same, head, row = changes(
        drawn(rows={"a": "1", "b": "2"}), drawn(rows={"a": "1", "b": "2"}), drawn("b", {"a": "1", "b": "2"}),
        drawn("b", {"a": "1", "b": "3"}),
    )  # fmt: skip
    assert same == {}
    assert head["fragments"] == {"head": "b"}
    assert "rows" not in head
    assert row["rows"] == {"place": "job-rows", "changed": "3"}
    assert "fragments" not in row


def test_another_order_sends_the_order_and_not_the_rows() -> None:
    assert rows_change({"a": "1", "b": "2"}, [fragment("b", "2"), fragment("a", "1")]) == {
        "changed": "",
        "order": ["b", "a"],
    }
    assert rows_change({"a": "1", "b": "2"}, [fragment("b", "2")]) == {"changed": "", "order": ["b"]}


def test_a_new_table_comes_with_all_rows() -> None:
    """Breaks if a table stays empty after its head changed."""
    _, second = changes(drawn(rows={"a": "1"}), drawn(rows={"a": "1"}, table="other"))
    assert second["rows"]["changed"] == "1"


def test_charts_come_when_they_change() -> None:
    first, second, third = changes(drawn(charts=(CHART,)), drawn("b", charts=(CHART,)), drawn("b"))
    assert first["charts"][0]["id"] == "loss"
    assert "charts" not in second
    assert third["charts"] == []


def test_other_fragments_than_before_load_the_page_again() -> None:
    _, second = changes(drawn(), Drawn(Page("Jobs", (fragment("other", ""),))))
    assert second == {"reload": True}


async def test_a_browser_that_has_the_state_is_sent_nothing_but_a_greeting() -> None:
    """Breaks if each page is drawn twice, which takes the focus away."""
    world = World()
    task = asyncio.create_task(world.stream().run(world.now.stamp("")))  # type: ignore[union-attr]
    async with asyncio.timeout(20):
        await world.has_sent(1)
        world.now = drawn("b")
        world.pulse.beat()
        await world.has_sent(2)
    task.cancel()
    assert world.sent[0].startswith("event: hello\n")
    assert json.loads(world.sent[1].partition("data: ")[2])["fragments"] == {"head": "b"}


async def test_a_browser_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if states pile up for it, or if its stream waits for ever."""
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    world = World()
    world.reads.clear()
    async with asyncio.timeout(20):
        with pytest.raises(TimeoutError):
            await world.stream().run("")


async def test_a_job_that_is_gone_is_said_once() -> None:
    """Breaks if the same words are sent with each beat."""
    world = World()
    world.now = None
    stream = world.stream()
    for _ in range(2):
        await stream._look("")
    assert len(world.sent) == 1
    assert "was deleted" in world.sent[0]


def test_no_line_of_a_fragment_can_end_the_event() -> None:
    """Breaks if a text with line breaks becomes events of its own."""
    text = World().stream().change(drawn("a\n\nevent: hello\ndata: x"), "")
    assert "\n" not in text
