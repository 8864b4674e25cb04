"""The stream of changes to one open page, as server-sent events.

A stream holds what its browser was sent last, and nothing else: a browser that reads slowly misses the states between,
and one that reads nothing for a while is dropped. So no stream needs more memory than two states of its page.
"""

import asyncio
import json
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from aiohttp import web

from holdfast_cli.pages.frame import banner
from holdfast_cli.pages.jobs_page import ROWS_PLACE, TABLE
from holdfast_cli.pages.page import Fragment
from holdfast_cli.ui.cluster import Cluster
from holdfast_cli.ui.drawn import Drawn, View

HEARTBEAT: Final = 10.0  # seconds
PAUSE: Final = 0.25  # seconds between two changes that are sent
PATIENCE: Final = 10.0  # seconds that a browser may take to read what it was sent
REDRAW: Final = 5.0  # seconds after which a page with ages is drawn again
GONE: Final = "The job was deleted. The page shows what was seen last."


class Stream:
    """One page that is open in a browser."""

    def __init__(self, response: web.StreamResponse, cluster: Cluster, view: View) -> None:
        self._response = response
        self._cluster = cluster
        self._view = view
        self._parts: dict[str, str] | None = None
        self._rows: dict[str, str] = {}
        self._charts = ""
        self._sent_at = 0.0

    async def run(self, stamp: str) -> None:
        """Send changes until the browser goes, or is too slow. `stamp` is of the state that the browser has."""
        await self._send("hello", "{}")
        self._sent_at = monotonic()
        while True:
            seen = self._cluster.pulse.count
            await self._look(stamp)
            stamp = ""
            await asyncio.sleep(PAUSE)
            while not await self._cluster.pulse.after(seen, REDRAW):
                if monotonic() - self._sent_at > HEARTBEAT:
                    await self._write(b": still here\n\n")
                if self._view.has_ages:
                    break

    async def _look(self, stamp: str) -> None:
        drawn, trouble = await self._view.draw(), self._cluster.trouble
        if drawn is None:
            gone = banner(GONE)
            if self._parts is None or self._parts["banner"] != gone:
                self._parts = {**(self._parts or {}), "banner": gone}
                await self._send("change", json.dumps({"fragments": {"banner": gone, "actions": ""}, "stamp": ""}))
        elif stamp and drawn.stamp(trouble) == stamp:
            self._remember(drawn, trouble)
        elif change := self.change(drawn, trouble):
            await self._send("change", change)

    def change(self, drawn: Drawn, trouble: str) -> str:
        """What differs from what was sent last, as JSON; empty if nothing does."""
        before, rows_before, charts_before = self._parts, self._rows, self._charts
        self._remember(drawn, trouble)
        parts = self._parts or {}
        change: dict[str, Any] = {}
        if before is not None and list(before) != list(parts):
            return json.dumps({"reload": True})
        if changed := {one: html for one, html in parts.items() if before is None or before[one] != html}:
            change["fragments"] = changed
        if TABLE in change.get("fragments", ()):  # it is sent without rows
            rows_before = {}
        if moved := rows_change(rows_before, drawn.rows):
            change["rows"] = {"place": ROWS_PLACE, **moved}
        text = json.dumps(change)
        if self._charts != charts_before and (drawn.page.charts or charts_before):
            text = f'{text[:-1]}{", " if change else ""}"charts": {self._charts}}}'
        elif not change:
            return ""
        return f'{text[:-1]}, "stamp": {json.dumps(drawn.stamp(trouble))}}}'

    def _remember(self, drawn: Drawn, trouble: str) -> None:
        self._parts = drawn.parts(trouble)
        self._rows = {row.id: row.html for row in drawn.rows}
        self._charts = drawn.charts()

    async def _send(self, event: str, data: str) -> None:
        await self._write(f"event: {event}\ndata: {data}\n\n".encode(errors="replace"))

    async def _write(self, data: bytes) -> None:
        """Raises TimeoutError if the browser does not read."""
        async with asyncio.timeout(PATIENCE):
            await self._response.write(data)
        self._sent_at = monotonic()


def rows_change(before: dict[str, str], rows: Sequence[Fragment]) -> dict[str, Any]:
    """The rows that changed as HTML, and the keys in order if their order or number changed."""
    changed = "".join(row.html for row in rows if before.get(row.id) != row.html)
    order = [row.id for row in rows]
    moved: dict[str, Any] = {"changed": changed} if changed or order != list(before) else {}
    if order != list(before):
        moved["order"] = order
    return moved
