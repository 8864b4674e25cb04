"""Attempts as bars, character by character."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from rich.console import Console
from tests.support.decisions.snapshots import NOW, at, attempt, drain, job, status, tier

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind
from holdfast.api.status import Ledger
from holdfast_cli.jobs.timeline import MOST_TICKS, Bar, Timeline, timeline

MINUTE = 60


def record(number, tier="spot", kind=EndKind.INTERRUPTION, *, raised, node=None, step=None, left=None, ended):
    """Times are minutes from NOW."""
    times = {"scheduled_at": node, "started_at": node, "first_step_at": step, "last_step_at": left}
    return AttemptRecord(
        number=number,
        tier=tier,
        kind=kind,
        reason="Because",
        raised_at=at(raised * MINUTE),
        ended_at=at(ended * MINUTE),
        first_step=None if step is None else 1,
        **{name: at(value * MINUTE) for name, value in times.items() if value is not None},
    )


def drawn(*records, current=None, successor=None, width=66, zone=UTC, colour=False, ledger=None):
    """The lines, without blanks at their ends. 66 characters: `dedicated`, two blanks, and 55 columns of bars."""
    given = job(status(current, successor=successor, history=records, ledger=ledger or Ledger(attempts=len(records))))
    system = "standard" if colour else None
    out = Console(width=width, force_terminal=colour, color_system=system, no_color=not colour, highlight=False)
    with out.capture() as captured:
        out.print(timeline(given, NOW, zone=zone))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_job_that_was_interrupted_moved_and_went_back():
    """One column is two minutes. Breaks if a stage, an end, a gap or the order of the grid is drawn wrongly."""
    lines = drawn(
        record(1, raised=-110, node=-100, step=-90, left=-62, ended=-60),
        record(2, "dedicated", EndKind.STOPPED, raised=-60, node=-56, step=-50, left=-24, ended=-20),
        current=attempt(3, raised_at=at(-40 * MINUTE), scheduled_at=at(-30 * MINUTE), progress_at=at(-20 * MINUTE),
                        first_step=3),
    )  # fmt: skip
    assert lines == [
        "spot       ·····░░░░░██████████████×          ·····░░░░░██████████",
        "dedicated                           ··░░░█████████████▒›",
        "           ──────────┬──────────────┬──────────────┬──────────────",
        "                     07:30          08:00          08:30",
        "2026-11-21 07:10 to 2026-11-21 09:00, 1h50m",
        "· waiting   ░ starting   █ training   ▒ leaving   × interrupted",
        "› moved or stopped",
    ]


@pytest.mark.parametrize(
    ("kind", "sign", "word"),
    [
        (EndKind.INTERRUPTION, "×", "interrupted"),
        (EndKind.FAILURE, "!", "failed"),
        (EndKind.MISCONFIGURED, "!", "failed"),
        (EndKind.COMPLETED, "✓", "complete"),
        (EndKind.STOPPED, "›", "moved or stopped"),
    ],
)
def test_every_end_has_a_sign_and_the_legend_names_it(kind, sign, word):
    lines = drawn(record(1, kind=kind, raised=-60, node=-60, step=-60, left=0, ended=0), width=80)
    assert lines[0].endswith(f"█{sign}")
    assert f"{sign} {word}" in lines[-1]
    assert lines[-1].count("   ") == 1, "nothing is explained that is not there"


def test_the_present_says_what_it_does():
    waiting = attempt(1, AttemptState.ACQUIRING, raised_at=at(-600))
    assert drawn(current=waiting)[0] == f"spot  {'·' * 60}"
    starting = attempt(1, AttemptState.STARTING, raised_at=at(-600), scheduled_at=at(-600))
    assert drawn(current=starting)[0] == f"spot  {'░' * 60}"
    leaving = attempt(1, AttemptState.DRAINING, raised_at=at(-600), scheduled_at=at(-600), progress_at=at(-600),
                      first_step=1, drain=drain(at=at(-300)))  # fmt: skip
    assert drawn(current=leaving)[0] == f"spot  {'█' * 30}{'▒' * 30}"


def test_a_successor_overlaps_in_a_row_of_its_own():
    current = attempt(1, raised_at=at(-600), scheduled_at=at(-600), progress_at=at(-600), first_step=1)
    follower = attempt(2, AttemptState.ACQUIRING, tier=tier("dedicated"), raised_at=at(-300))
    lines = drawn(current=current, successor=follower, width=71)
    assert lines[:2] == [f"spot       {'█' * 60}", f"dedicated  {' ' * 30}{'·' * 30}"]


def test_an_attempt_too_short_for_a_column_is_seen_all_the_same():
    lines = drawn(
        record(1, raised=-6000, node=-6000, step=-6000, left=-3000, ended=-3000),
        record(2, "dedicated", EndKind.STOPPED, raised=-3000, ended=-2999),
        record(3, raised=-2999, node=-2999, step=-2999, left=0, ended=0),
    )
    assert lines[1].strip() == "dedicated                             ›"


def test_an_interruption_is_not_hidden_by_a_stop_in_the_same_column():
    lines = drawn(
        record(1, raised=-6000, node=-6000, step=-6000, left=-11, ended=-11),
        record(2, kind=EndKind.STOPPED, raised=-11, ended=-10),
        record(3, kind=EndKind.STOPPED, raised=-10, ended=0),
    )
    assert lines[0].endswith("█×")


def test_a_program_that_reports_no_steps_trains_from_its_start():
    lines = drawn(record(1, raised=-60, node=-30, ended=0))
    assert lines[0] == f"spot  {'·' * 30}{'█' * 29}×"


def test_clocks_that_disagree_draw_something():
    lines = drawn(record(1, raised=-10, node=-20, step=5, left=-30, ended=-40), width=40)
    assert lines[0] == "spot  ×"
    assert lines[3] == "2026-11-21 08:50 to 2026-11-21 08:50, 0s"


def test_what_is_folded_away_is_said():
    over = record(7, raised=-60, node=-50, step=-40, left=-1, ended=0)
    assert drawn(over, ledger=Ledger(attempts=7))[-1] == "6 further attempts are kept only as sums, in the cost"
    assert drawn(over, ledger=Ledger(attempts=2))[-1] == "1 further attempt is kept only as sums, in the cost"
    assert "further" not in drawn(over)[-1]


def test_nothing_is_drawn_before_the_first_attempt():
    assert timeline(job(), NOW) is None


def test_days_are_named_in_the_zone_of_the_reader():
    lines = drawn(record(1, raised=-3 * 1440, node=-4000, step=-3990, left=0, ended=0), width=48)
    assert lines[1:3] == [
        "      ────────┬─────────────┬─────────────┬─────",
        "              Nov 19        Nov 20        Nov 21",
    ]
    east = drawn(record(1, raised=-600, node=-590, step=-580, left=0, ended=0), zone=timezone(timedelta(hours=9)))
    assert east[2] == "      08:00       10:00       12:00       14:00       16:00"


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_it_fits(width):
    long = job(status(attempt(1, tier=tier().model_copy(update={"name": "a" * 63}))))
    out = Console(width=width, force_terminal=False)
    with out.capture() as captured:
        out.print(timeline(long, NOW, zone=UTC))
    assert max(map(len, captured.get().splitlines())) <= max(width, 40)


def test_colours_are_those_of_the_kinds_and_only_on_a_terminal():
    over = record(1, "dedicated", EndKind.STOPPED, raised=-60, node=-50, step=-40, left=-1, ended=0)
    assert "\x1b[34m" in drawn(over, colour=True)[0]
    assert "\x1b" not in drawn(over)[0]


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = Console(width=60, force_terminal=True, color_system="standard")
    with out.capture() as captured:
        out.print(timeline(job(status(attempt(1))), NOW))
    assert "\x1b[3" not in captured.get()


def test_ticks_are_bounded():
    """Breaks if the times of a status can keep the pages busy for ever."""
    found = Timeline(
        [Bar("spot", (datetime(1, 1, 2, tzinfo=UTC),) * 4 + (datetime(9998, 1, 1, tzinfo=UTC),))], {}, [], 0, UTC
    )
    assert len(list(found.ticks(timedelta(seconds=1)))) <= MOST_TICKS
    assert len(list(found.ticks(timedelta(days=4000)))) <= MOST_TICKS
