"""Pictures as SVG: the timeline, and a bar that is divided into parts. They need no script, so they print.

All horizontal positions are percentages: the picture is as wide as its page, and its letters stay as they are.
"""

from collections.abc import Sequence
from datetime import timedelta
from html import escape
from itertools import pairwise

from holdfast_cli.jobs.timeline import END_WORDS, STAGE_WORDS, Bar, End, Stage, Timeline
from holdfast_cli.terminal import formats

TITLE, LANE, GAP, AXIS = 22, 24, 14, 26  # heights in pixels
TICKS = 10  # at most
LABEL_ROOM = 7.5  # percent of the width from which on a bar has a label inside
THIN = 0.25  # percent: a stage that is shorter is still seen
KINDS = {"Spot": "kind-spot", "Dedicated": "kind-dedicated", "CPU": "kind-cpu"}


def timeline_picture(found: Timeline) -> str:
    """The bars with a lane for each tier, more where attempts overlap; an axis; and what the signs mean."""
    parts, top = [], 0
    for tier in found.tiers:
        lanes = _lanes([bar for bar in found.bars if bar.tier == tier])
        kind = found.kinds.get(tier, "")
        said = f' <tspan class="quiet" dx="6">{escape(kind)}</tspan>' if kind else ""
        parts.append(f'<text x="0" y="{top + 15}">{escape(tier)}{said}</text>')
        top += TITLE
        for lane in lanes:
            parts.append(f'<rect class="lane" x="0" y="{top}" width="100%" height="{LANE}" rx="3"/>')
            parts += [_bar(found, bar, top, KINDS.get(kind, "kind-other")) for bar in lane]
            parts += [_end(found, bar, bar.end, top) for bar in lane if bar.end]
            top += LANE + 4
        top += GAP
    grid = _axis(found, top)
    label = escape(f"Attempts by tier, {found.range_words()}")
    height = top + AXIS
    picture = f'<svg class="timeline" width="100%" height="{height}" role="img" aria-label="{label}">'
    more = f" {escape(found.folded_words())}." if found.folded_words() else ""
    words = f'<p class="quiet">{escape(found.range_words())}.{more}</p>'
    return f"{picture}{grid}{''.join(parts)}</svg>{_legend(found)}{words}"


def _lanes(bars: Sequence[Bar]) -> list[list[Bar]]:
    """The bars in as few lanes as keep those apart that overlap."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda one: one.marks[0]):
        free = next((lane for lane in lanes if lane[-1].marks[-1] <= bar.marks[0]), None)
        if free is None:
            lanes.append(free := [])
        free.append(bar)
    return lanes


def _bar(found: Timeline, bar: Bar, top: int, kind: str) -> str:
    parts = []
    for stage, (since, until) in zip(Stage, pairwise(bar.marks), strict=True):
        left, right = found.place(since) * 100, found.place(until) * 100
        if since < until:
            where = f'x="{left:.3f}%" y="{top}" width="{max(right - left, THIN):.3f}%" height="{LANE}"'
            parts.append(f'<rect class="{STAGE_WORDS[stage]}" {where}/>')
        if stage is Stage.TRAINING and right - left >= LABEL_ROOM:
            text = escape(" · ".join(filter(None, (str(bar.number or ""), bar.node))))
            inside = f'<text class="inside" x="8" y="16">{text}</text>'
            parts.append(
                f'<svg x="{left:.3f}%" y="{top}" width="{right - left - 2:.3f}%" height="{LANE}">{inside}</svg>'
            )
    return f'<g class="{kind}"><title>{escape(_said(bar))}</title>{"".join(parts)}</g>'


def _said(bar: Bar) -> str:
    """`attempt 3 on spot, node-1: waiting 2m00s, starting 40s, training 2h05m; lost`."""
    spans = [(STAGE_WORDS[stage], b - a) for stage, (a, b) in zip(Stage, pairwise(bar.marks), strict=True) if a < b]
    who = f"attempt {bar.number}" if bar.number else "an attempt"
    where = ", ".join(filter(None, (bar.tier, bar.node)))
    said = ", ".join(f"{word} {formats.exact(span)}" for word, span in spans)
    return f"{who} on {where}: {said or 'no time'}{f'; {END_WORDS[bar.end]}' if bar.end else ''}"


def _end(found: Timeline, bar: Bar, end: End, top: int) -> str:
    place, middle = f"{found.place(bar.marks[-1]) * 100:.3f}%", top + LANE // 2
    word = end.name.lower()
    badge = f'<circle class="badge" cx="{place}" cy="{middle}" r="8"/>'
    sign = f'<text class="end end-{word}" x="{place}" y="{middle + 4}" text-anchor="middle">{end}</text>'
    return f"<g><title>{escape(END_WORDS[end])}</title>{badge}{sign}</g>"


def _axis(found: Timeline, bottom: int) -> str:
    """Lines at round times behind the bars, and their labels below."""
    whole = max(found.until - found.since, timedelta(seconds=1))
    parts = []
    for number, (at, label) in enumerate(found.ticks(whole / TICKS)):
        place = found.place(at) * 100
        if place > 100:
            break
        odd = " odd" if number % 2 else ""
        anchor = "start" if place < 4 else "end" if place > 96 else "middle"
        parts.append(f'<line class="grid" x1="{place:.3f}%" x2="{place:.3f}%" y1="0" y2="{bottom}"/>')
        parts.append(
            f'<text class="tick-label{odd}" x="{place:.3f}%" y="{bottom + 16}" text-anchor="{anchor}">{label}</text>'
        )
    return "".join(parts)


def _legend(found: Timeline) -> str:
    """The meaning of the signs that are shown."""
    stages, ends = found.signs()
    said = [
        f'<span class="key"><svg class="timeline swatch" aria-hidden="true"><g class="kind-other">'
        f'<rect class="{word}" width="100%" height="100%"/></g></svg>{word}</span>'
        for stage, word in STAGE_WORDS.items()
        if stage in stages
    ]
    said += [
        f'<span class="key"><svg class="timeline swatch" aria-hidden="true"><text class="end end-{end.name.lower()}" '
        f'x="2" y="11">{end}</text></svg>{escape(word)}</span>'
        for end, word in END_WORDS.items()
        if end in ends
    ]
    return f'<p class="keys">{"".join(said)}</p>'


def divided_bar(parts: Sequence[tuple[str, float, str, str]], title: str) -> str:
    """A bar with a part for each (name, size, value in words, class), and a key below; empty if all sizes are 0."""
    parts = [part for part in parts if part[1] > 0]
    whole = sum(size for _, size, _, _ in parts)
    if whole <= 0:
        return ""
    rects, left = [], 0.0
    for name, size, words, kind in parts:
        width = size / whole * 100
        hint = f"<title>{escape(f'{name}: {words}')}</title>"
        rects.append(f'<rect class="{kind}" x="{left:.3f}%" width="{width:.3f}%" height="100%">{hint}</rect>')
        left += width
    key = "".join(
        f'<span class="key"><svg class="parts swatch" aria-hidden="true"><rect class="{kind}" width="100%" '
        f'height="100%"/></svg>{escape(name)} <span class="quiet">{escape(words)}</span></span>'
        for name, _, words, kind in parts
    )
    return f'<svg class="parts" role="img" aria-label="{escape(title)}">{"".join(rects)}</svg><p class="keys">{key}</p>'


def progress_bar(share: float) -> str:
    """A bar that is filled to this share, 0 to 1."""
    done = f'<rect class="done" width="{min(max(share, 0), 1) * 100:.2f}%" height="100%"/>'
    label = f"{share:.1%} of the steps are done"
    return (
        f'<svg class="bar" role="img" aria-label="{label}"><rect class="whole" width="100%" height="100%"/>{done}</svg>'
    )
