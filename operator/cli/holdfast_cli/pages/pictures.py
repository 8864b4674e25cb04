"""Pictures as SVG: the timeline, and a bar that is divided into parts. They need no script, so they print.

All horizontal positions are percentages: the picture is as wide as its page, and its letters stay as they are.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from holdfast_cli.jobs.timeline import END_WORDS, STAGE_WORDS, Bar, End, Stage, Timeline
from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Markup, Template

TITLE, LANE, GAP, AXIS = 22, 24, 14, 26  # heights in pixels
TICKS = 10  # at most
LABEL_ROOM = 7.5  # percent of the width from which on a bar has a label inside
THIN = 0.25  # percent: a stage that is shorter is still seen
KINDS = {"Spot": "kind-spot", "Dedicated": "kind-dedicated", "CPU": "kind-cpu"}


_HTML: Final = Template(__name__)


class _End(NamedTuple):
    """How an attempt ended: its class, its sign, and the words for it."""

    word: str
    sign: str
    said: str


class _Stage(NamedTuple):
    """A part of a bar. `width`: empty if it took no time. `inside`: a label, and `room` its width, if there is some."""

    word: str
    left: str
    width: str
    inside: str
    room: str


class _Bar(NamedTuple):
    """One attempt. `at`: the place of its end."""

    said: str
    stages: Sequence[_Stage]
    end: _End | None
    at: str


class _Tier(NamedTuple):
    """The lanes of a tier from the top, each with its height in the picture and its bars."""

    name: str
    kind: str
    colour: str
    top: int
    lanes: Sequence[tuple[int, Sequence[_Bar]]]


class _Tick(NamedTuple):
    """A line at a round time, and its label."""

    place: str
    anchor: str
    label: str


def timeline_picture(found: Timeline) -> Markup:
    """The bars with a lane for each tier, more where attempts overlap; an axis; and what the signs mean."""
    tiers, top = [], 0
    for tier in found.tiers:
        kind, title, lanes = found.kinds.get(tier, ""), top, []
        top += TITLE
        for lane in _lanes([bar for bar in found.bars if bar.tier == tier]):
            lanes.append((top, [_bar(found, bar) for bar in lane]))
            top += LANE + 4
        tiers.append(_Tier(tier, kind, KINDS.get(kind, "kind-other"), title, lanes))
        top += GAP
    stages, ends = found.signs()
    more = f" {found.folded_words()}." if found.folded_words() else ""
    return _HTML.timeline(
        label=f"Attempts by tier, {found.range_words()}",
        height=top + AXIS,
        bottom=top,
        lane=LANE,
        ticks=list(_ticks(found)),
        tiers=tiers,
        stages=[word for stage, word in STAGE_WORDS.items() if stage in stages],
        ends=[_end(end) for end in END_WORDS if end in ends],
        said=f"{found.range_words()}.{more}",
    )


def _lanes(bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars in as few lanes as keep those apart that overlap."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda one: one.marks[0]):
        free = next((lane for lane in lanes if lane[-1].marks[-1] <= bar.marks[0]), None)
        if free is None:
            lanes.append(free := [])
        free.append(bar)
    return lanes


def _bar(found: Timeline, bar: Bar) -> _Bar:
    stages = [_stage(found, bar, stage, *marks) for stage, marks in zip(Stage, pairwise(bar.marks), strict=True)]
    return _Bar(_said(bar), stages, _end(bar.end) if bar.end else None, _percent(found.place(bar.marks[-1]) * 100))


def _stage(found: Timeline, bar: Bar, stage: Stage, since: datetime, until: datetime) -> _Stage:
    left, right = found.place(since) * 100, found.place(until) * 100
    has_label = stage is Stage.TRAINING and right - left >= LABEL_ROOM
    return _Stage(
        word=STAGE_WORDS[stage],
        left=_percent(left),
        width=_percent(max(right - left, THIN)) if since < until else "",
        inside=" · ".join(filter(None, (str(bar.number or ""), bar.node))) if has_label else "",
        room=_percent(right - left - 2),
    )


def _percent(place: float) -> str:
    return f"{place:.3f}%"


def _said(bar: Bar) -> str:
    """`attempt 3 on spot, node-1: waiting 2m00s, starting 40s, training 2h05m; interrupted`."""
    spans = [(STAGE_WORDS[stage], b - a) for stage, (a, b) in zip(Stage, pairwise(bar.marks), strict=True) if a < b]
    who = f"attempt {bar.number}" if bar.number else "an attempt"
    where = ", ".join(filter(None, (bar.tier, bar.node)))
    said = ", ".join(f"{word} {formats.exact(span)}" for word, span in spans)
    return f"{who} on {where}: {said or 'no time'}{f'; {END_WORDS[bar.end]}' if bar.end else ''}"


def _end(end: End) -> _End:
    return _End(end.name.lower(), str(end), END_WORDS[end])


def _ticks(found: Timeline) -> Iterator[_Tick]:
    """At round times."""
    whole = max(found.until - found.since, timedelta(seconds=1))
    for at, label in found.ticks(whole / TICKS):
        place = found.place(at) * 100
        if place > 100:
            break
        yield _Tick(_percent(place), "start" if place < 4 else "end" if place > 96 else "middle", label)


class _Part(NamedTuple):
    """A part of a divided bar."""

    name: str
    words: str
    kind: str
    left: str
    width: str


def divided_bar(parts: Sequence[tuple[str, float, str, str]], title: str) -> Markup:
    """A bar with a part for each (name, size, value in words, class), and a key below; empty if all sizes are 0."""
    parts = [part for part in parts if part[1] > 0]
    whole = sum(size for _, size, _, _ in parts)
    if whole <= 0:
        return Markup()
    drawn, left = [], 0.0
    for name, size, words, kind in parts:
        width = size / whole * 100
        drawn.append(_Part(name, words, kind, _percent(left), _percent(width)))
        left += width
    return _HTML.divided_bar(title=title, parts=drawn)


def progress_bar(share: float) -> Markup:
    """A bar that is filled to this share, 0 to 1."""
    return _HTML.progress_bar(label=f"{share:.1%} of the steps are done", width=f"{min(max(share, 0), 1) * 100:.2f}%")
