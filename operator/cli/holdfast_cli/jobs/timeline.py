"""A job's attempts as bars: a row for each tier over one time axis. Pure.

Each stage and each kind of end has its own sign, so that colour alone never carries information.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import groupby, pairwise
from math import ceil

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from holdfast.api.attempt import Attempt, AttemptRecord, EndKind
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast_cli.terminal import formats

LONGEST_NAME = 16
LEAST_WIDTH = 16  # columns of bars, also on a narrow screen
MOST_TICKS = 300
LABEL_ROOM = 10  # columns from one label of the axis to the next, at least
KIND_STYLES = {"Spot": "green", "Dedicated": "blue", "CPU": "magenta"}


class Stage(StrEnum):
    """The stages of an attempt; the value is the sign."""

    WAITING = "·"
    STARTING = "░"
    TRAINING = "█"
    LEAVING = "▒"


class End(StrEnum):
    """How an attempt ended; the value is the sign. In one column the first of them is shown."""

    FAILED = "!"
    INTERRUPTED = "×"
    COMPLETE = "✓"
    STOPPED = "›"


STAGE_WORDS = {
    Stage.WAITING: "waiting",
    Stage.STARTING: "starting",
    Stage.TRAINING: "training",
    Stage.LEAVING: "leaving",
}
END_WORDS = {
    End.FAILED: "failed",
    End.INTERRUPTED: "interrupted",
    End.COMPLETE: "complete",
    End.STOPPED: "moved or stopped",
}
_END_STYLES = {End.FAILED: "bold red", End.INTERRUPTED: "bold yellow", End.COMPLETE: "bold green", End.STOPPED: "bold"}
_END_OF = {EndKind.INTERRUPTION: End.INTERRUPTED, EndKind.COMPLETED: End.COMPLETE, EndKind.STOPPED: End.STOPPED}
_STEPS = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600),
        *(hours * 3600 for hours in (2, 3, 6, 12, 24, 48, 96, 168, 336, 672, 1344, 2688, 5376, 10752)),
    )
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt: the times at which its stages begin, in the order of Stage, and its end (or now).

    `node`: its node, or how many it has.
    """

    tier: str
    marks: tuple[datetime, datetime, datetime, datetime, datetime]
    end: End | None = None
    number: int = 0
    node: str = ""


class Timeline:
    """The bars of some attempts. Times of the axis are in `zone`, or in the local one."""

    def __init__(
        self, bars: Sequence[Bar], kinds: dict[str, str], order: Sequence[str], folded: int, zone: tzinfo | None
    ) -> None:
        self.bars, self.kinds, self.folded, self.zone = bars, kinds, folded, zone
        used = {bar.tier for bar in bars}
        self.tiers = [*(name for name in order if name in used), *sorted(used - set(order))]
        self.since = min(bar.marks[0] for bar in bars)
        self.until = max(bar.marks[-1] for bar in bars)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich."""
        name_width = min(max(len(name) for name in self.tiers), LONGEST_NAME)
        width = max(options.max_width - name_width - 2, LEAST_WIDTH)
        for tier in self.tiers:
            name = tier if len(tier) <= name_width else f"{tier[: name_width - 1]}…"
            line = Text(f"{name.ljust(name_width)}  ", no_wrap=True)
            yield line.append_text(self._row(tier, width))
        for axis in self._axis(width):
            yield Text(f"{' ' * (name_width + 2)}{axis}", style="dim", no_wrap=True)
        yield Text(self.range_words(), style="dim")
        yield self._legend()
        if more := self.folded_words():
            yield Text(more, style="dim")

    def range_words(self) -> str:
        """`2026-11-21 07:10 to 2026-11-21 09:00, 1h50m`."""
        since, until = (at.astimezone(self.zone) for at in (self.since, self.until))
        return f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}, {formats.span(until - since)}"

    def folded_words(self) -> str:
        """How many attempts are not shown; empty if none."""
        if not self.folded:
            return ""
        more = "1 further attempt is" if self.folded == 1 else f"{self.folded} further attempts are"
        return f"{more} kept only as sums, in the cost"

    def place(self, at: datetime) -> float:
        """The position of a time between the first and the last one, 0 to 1."""
        whole = self.until - self.since
        return (at - self.since) / whole if whole else 0.0

    def ticks(self, room: timedelta) -> Iterator[tuple[datetime, str]]:
        """Round times and their labels, at least `room` apart, and at most MOST_TICKS of them."""
        room = max(room, (self.until - self.since) / (MOST_TICKS - 1))
        step = next((step for step in _STEPS if step >= room), max(_STEPS[-1], room))
        since, until = (at.astimezone(self.zone) for at in (self.since, self.until))
        midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
        at = midnight + step * ceil((since - midnight) / step)
        while at <= until:
            yield at, _label(at, step)
            at += step

    def signs(self) -> tuple[set[Stage], set[End]]:
        """The stages and the ends that are shown."""
        stages = {s for bar in self.bars for s, (a, b) in zip(Stage, pairwise(bar.marks), strict=True) if a < b}
        return stages, {bar.end for bar in self.bars if bar.end}

    def _place(self, at: datetime, width: int) -> float:
        """The position of a time, in columns from the left."""
        return self.place(at) * width

    def _row(self, tier: str, width: int) -> Text:
        """One tier: in each column the stage that took most of it, or the end that falls into it."""
        cells: list[dict[Stage, float]] = [{} for _ in range(width)]
        ends: dict[int, End] = {}
        for bar in self.bars:
            if bar.tier != tier:
                continue
            for stage, (since, until) in zip(Stage, pairwise(bar.marks), strict=True):
                left, right = self._place(since, width), self._place(until, width)
                for column in range(min(int(left), width - 1), min(ceil(right), width)):
                    share = min(right, column + 1) - max(left, column)
                    cells[column][stage] = cells[column].get(stage, 0.0) + share
            if bar.end:
                column = min(max(ceil(self._place(bar.marks[-1], width)) - 1, 0), width - 1)
                ends[column] = min(bar.end, ends.get(column, bar.end), key=list(End).index)
        style = KIND_STYLES.get(self.kinds.get(tier, ""), "")
        signs = [(_sign(stages), style) for stages in cells]
        for column, end in ends.items():
            signs[column] = (end, _END_STYLES[end])
        runs = groupby(signs, key=lambda sign: sign[1])
        return Text.assemble(*(("".join(sign for sign, _ in run), shared) for shared, run in runs), no_wrap=True)

    def _axis(self, width: int) -> tuple[str, str]:
        """Ticks at round times, and their labels."""
        span = max(self.until - self.since, timedelta(seconds=1))
        ticks, labels = ["─"] * width, [" "] * width
        for at, label in self.ticks(span * LABEL_ROOM / width):
            if (column := int(self._place(at, width))) >= width:
                break
            ticks[column] = "┬"
            if column + len(label) <= width:
                labels[column : column + len(label)] = label
        return "".join(ticks), "".join(labels).rstrip()

    def _legend(self) -> Text:
        """The meaning of the signs that are shown."""
        stages, ends = self.signs()
        said = [f"{stage} {meaning}" for stage, meaning in STAGE_WORDS.items() if stage in stages]
        said += [f"{end} {meaning}" for end, meaning in END_WORDS.items() if end in ends]
        return Text("   ".join(said), style="dim")


def _sign(stages: Mapping[Stage, float]) -> str:
    """The stage that took most of a column; a blank if there is none."""
    return max(stages, key=lambda stage: stages[stage]) if stages else " "


def _label(at: datetime, step: timedelta) -> str:
    """`Nov 21` where a day begins, otherwise `09:30`, or `09:30:05` if ticks are close."""
    if step >= timedelta(days=1) or (at.hour, at.minute, at.second) == (0, 0, 0):
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M}" if step >= timedelta(minutes=1) else f"{at:%H:%M:%S}"


def timeline(job: TrainingJob, now: datetime, grid: Iterable[Tier] = (), zone: tzinfo | None = None) -> Timeline | None:
    """The attempts in the status; None if there are none. `grid`: the job's tiers, if known."""
    status = job.status
    present = [attempt for attempt in (status.current, status.successor) if attempt]
    begun = [record.first_step for record in status.history] + [attempt.first_step for attempt in present]
    steps = any(step is not None for step in begun)
    bars = [_past(record, steps=steps) for record in status.history]
    bars += [_present(attempt, now, steps=steps) for attempt in present]
    if not bars:
        return None
    tiers = list(grid) or list(job.spec.capacity.tiers)
    kinds: dict[str, str] = {one.tier: one.kind for one in status.ledger.by_tier}
    kinds |= {tier.name: tier.kind for tier in (*tiers, *(attempt.tier for attempt in present))}
    folded = max(status.ledger.attempts - len(status.history), 0)
    return Timeline(bars, kinds, [tier.name for tier in tiers], folded, zone)


def _past(record: AttemptRecord, *, steps: bool) -> Bar:
    begun = record.first_step_at if steps else record.started_at
    left = record.last_step_at if steps and record.first_step_at else None
    marks = _in_order(record.raised_at, (record.scheduled_at, begun, left), record.ended_at)
    return Bar(record.tier, marks, _END_OF.get(record.kind, End.FAILED), record.number, record.node or "")


def _present(attempt: Attempt, now: datetime, *, steps: bool) -> Bar:
    begun = attempt.progress_at if steps else attempt.started_at
    left = attempt.drain.at if attempt.drain else None
    marks = _in_order(attempt.raised_at, (attempt.scheduled_at, begun, left), now)
    node = f"{attempt.nodes} nodes" if attempt.nodes > 1 else (attempt.pods[0].node if attempt.pods else None) or ""
    return Bar(attempt.tier.name, marks, None, attempt.number, node)


def _in_order(
    raised: datetime, between: tuple[datetime | None, datetime | None, datetime | None], end: datetime
) -> tuple[datetime, datetime, datetime, datetime, datetime]:
    """The times in order, even if clocks disagree; a stage that was not reached begins at the end."""
    end = max(raised, end)
    scheduled, begun, left = (min(at or end, end) for at in between)
    scheduled = max(scheduled, raised)
    begun = max(begun, scheduled)
    return raised, scheduled, begun, max(left, begun), end
