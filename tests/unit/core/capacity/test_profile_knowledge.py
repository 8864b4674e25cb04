"""What the jobs of a profile know of its tiers, merged with what the profile remembers of deleted jobs."""

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.histories import histories
from tests.support.decisions.snapshots import NOW, at
from tests.support.decisions.tier_views import SECOND, known, measured, seen

from holdfast.api.knowledge import MAX_MEASURED, MAX_SHAPES, MAX_TIERS, Seen, ShapeKnowledge
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import profile_knowledge
from holdfast.core.capacity.knowledge import find
from holdfast.core.capacity.loss_counts import LossCount
from holdfast.core.capacity.profile_knowledge import JobView
from holdfast.core.capacity.spells import FRESH, Spell
from holdfast.core.observe.demand import Demand

UP = seen("Up", -590, -590)
NAMES = ("spot", "dedicated", "cpu")
EMPTY = CapacityProfileStatus()


SHAPE = Demand(1, Fraction(4), Fraction(2**30))


def seen_by(job, namespace="vision", demand=SHAPE, on=(), had=NAMES):
    """A job that has had nodes of all tiers, so that its pods are known to fit."""
    return JobView(namespace, demand, job, frozenset(on), frozenset(had))


LATER = at(200_000)


def together(jobs, before=EMPTY, tiers=NAMES, now=LATER, **counts):
    """`counts`: totals and level. All that `histories` give is past by then, and too old to weigh."""
    views = [job if isinstance(job, JobView) else seen_by(job) for job in jobs]
    return profile_knowledge.profile_status(tiers, before, views, **{"totals": {}, "level": {}, "now": now, **counts})


def shaped(one, accelerators=1):
    """The entry of a profile in which this was seen by one shape alone."""
    if one.state is None:
        return one
    shape = ShapeKnowledge(accelerators=accelerators, state=one.state, since=one.since, seen_at=one.seen_at)
    return one.model_copy(update={"shapes": (shape,)})


def spell(state, since, seen_at):
    return Spell(Seen(state), at(since), at(seen_at))


# Several jobs


def test_several_jobs():
    one = known(
        acquire=measured(1, 9), start=measured(7, worst=70), losses=1, had=SECOND, pace=SECOND, observation="Free", **UP
    )
    other = known(acquire=measured(5), losses=2, had=2 * SECOND, observation="Billed", **seen("Lost", -100, -100))
    counts = {"spot": LossCount(3, 3.5 * SECOND)}
    expected = shaped(known(
        acquire=measured(1, 5, 9), start=measured(7, worst=70), losses=3, had=3 * SECOND, observation="Billed",
        **seen("Lost", -100, -100),
    ))  # fmt: skip
    found = together([(one,), (other, known("cpu"), known("of another grid"))], totals=counts, level=counts)
    assert found.tiers == (expected, known("cpu"))
    assert found.counted == (Counted(tier="spot", losses=3, hours="0.000972"),)
    assert together([]) == EMPTY


def test_many_times_together_keep_their_shape():
    jobs = [(known(start=measured(*range(first, first + 5))),) for first in (10, 0, 20, 5, 15)]
    assert together(jobs).tiers[0].start == measured(0, 6, 12, 18, 24)


@given(st.lists(histories(), max_size=3), histories())
def test_the_order_of_jobs_does_not_matter(jobs, before):
    stored = CapacityProfileStatus(tiers=before)
    assert len({together(order, stored) for order in permutations(jobs)}) == 1


@given(st.lists(histories(), max_size=3), histories())
def test_the_same_news_again_is_none(jobs, before):
    once = together(jobs, CapacityProfileStatus(tiers=before))
    assert together(jobs, once) == once
    assert not profile_knowledge.is_news(once, once)
    assert not profile_knowledge.availability_changed(once, once)


@given(st.lists(histories(), max_size=4), histories())
def test_whatever_happened_fits_into_status(jobs, before):
    found = together(jobs, CapacityProfileStatus(tiers=before), totals={"spot": LossCount(99, SECOND)})
    assert CapacityProfileStatus.model_validate(found.to_object()) == found
    for one in found.tiers:
        assert (one.state is None) == (one.since is None) == (one.seen_at is None)
        assert one.since is None or one.since <= one.seen_at
        for times in (one.acquire, one.start):
            assert times is None or (0 < len(times.recent) <= MAX_MEASURED and max(times.recent) <= times.worst)


@given(st.lists(histories(), min_size=1, max_size=3))
def test_the_worst_that_any_job_measured_counts(jobs):
    found = together(jobs)
    for one in (one for job in jobs for one in job if one.start):
        assert find(found.tiers, one.tier).start.worst >= one.start.worst


def test_no_more_tiers_than_the_profile_has():
    many = [tuple(known(f"t{number}", **UP) for number in range(first, first + MAX_TIERS)) for first in (0, 9)]
    tiers = [f"t{number}" for number in range(MAX_TIERS)]
    assert [one.tier for one in together(many, tiers=tiers).tiers] == tiers
    before = CapacityProfileStatus(tiers=(known("renamed", losses=3, **UP),))
    assert together([], before).tiers == ()


# A refusal counts for other jobs only if one tenant alone cannot have caused it

RUNS = (known(**seen("Up", -7200, 0)),)
WAITS = (known(**seen("Refused", -61, 0)),)
ALSO = {"on": ("spot",)}
HUGE = Demand(1, Fraction(100_000), Fraction(2**30))


def spot(*jobs, before=EMPTY):
    found = find(together(jobs, before, now=NOW).tiers, "spot")
    return found.state if found else None


def test_one_refused_job_does_not_take_a_tier_out_on_which_others_run():
    runs = [seen_by(RUNS, **ALSO) for _ in range(40)]
    assert spot(*runs, seen_by(WAITS, "evil")) is Seen.UP
    assert spot(*runs, *(seen_by(WAITS, "evil") for _ in range(40))) is Seen.UP
    assert spot(*runs, *(seen_by(WAITS, "evil") for _ in range(41))) is Seen.REFUSED


def test_refused_jobs_of_two_namespaces_take_a_tier_out():
    runs = [seen_by(RUNS, **ALSO) for _ in range(40)]
    assert spot(*runs, seen_by(WAITS, "vision"), seen_by(WAITS, "language")) is Seen.REFUSED


def test_a_pod_that_cannot_use_a_tier_says_nothing_about_it():
    unfit = (known(**seen("Unfit", -900, 0)),)
    assert spot(seen_by(unfit, "vision"), seen_by(unfit, "language")) is None
    assert spot(seen_by(RUNS, **ALSO), *(seen_by(unfit, "evil") for _ in range(9))) is Seen.UP


def test_a_pod_that_asks_for_more_than_any_node_was_ever_seen_to_hold_takes_no_idle_tier_out():
    assert spot(seen_by(WAITS, "evil", HUGE, had=())) is None
    assert spot(seen_by(WAITS, "evil", HUGE, had=()), seen_by((), had=("spot",))) is None
    assert spot(seen_by(WAITS, "vision", had=()), seen_by((), demand=HUGE, had=("spot",))) is Seen.REFUSED


def test_a_refused_job_that_was_on_the_tier_before_takes_an_idle_tier_out():
    assert spot(seen_by(WAITS, had=("spot",))) is Seen.REFUSED


def test_a_refused_job_of_many_accelerators_says_nothing_to_one_of_few():
    eight = SHAPE._replace(accelerators=8)
    runs = [seen_by(RUNS, **ALSO) for _ in range(4)]
    found = find(together([*runs, seen_by(WAITS, demand=eight)], now=NOW).tiers, "spot")
    assert [(shape.accelerators, shape.state) for shape in found.shapes] == [(1, Seen.UP), (8, Seen.REFUSED)]
    assert found.state is Seen.UP


def test_a_tier_that_goes_out_for_one_shape_alone_is_a_change():
    eight = SHAPE._replace(accelerators=8)
    before = together([seen_by(RUNS, **ALSO)], now=NOW)
    after = together([seen_by(RUNS, **ALSO), seen_by(WAITS, demand=eight)], now=NOW)
    assert profile_knowledge.availability_changed(before, after)
    assert profile_knowledge.is_news(before, after)


def test_a_profile_remembers_a_bounded_number_of_shapes():
    jobs = [seen_by(RUNS, demand=SHAPE._replace(accelerators=number)) for number in range(MAX_SHAPES + 3)]
    found = together(jobs, now=NOW)
    assert len(find(found.tiers, "spot").shapes) == MAX_SHAPES
    assert together(jobs, found, now=NOW) == found


# Jobs that are gone


def test_what_jobs_knew_stays_known():
    before = CapacityProfileStatus(tiers=(shaped(known(acquire=measured(4), observation="Billed", losses=2, **UP)),))
    after = together([], before, totals={"spot": LossCount(2)})
    assert after.tiers == before.tiers
    newer = together([(known(observation="Free"),)], after, totals={"spot": LossCount(2)})
    assert newer == after, "Free says no more than that nodes stood there"


def test_people_see_which_tiers_are_up():
    job = (known(**UP), known("dedicated", **seen("Refused", -9, -5)), known("cpu", losses=1))
    lost = (known("spot-2", **seen("Lost", -9, -9)), known("cpu-2", **UP))
    tiers = (*NAMES, "spot-2", "cpu-2")
    found = together([seen_by(one, had=tiers) for one in (job, lost)], tiers=tiers, now=NOW)
    assert (found.up, found.out, found.seen_at) == ("spot, cpu-2", "dedicated, spot-2", at(-5))
    assert (together([]).up, together([]).out, together([]).seen_at) == ("", "", None)


@pytest.mark.parametrize(
    ("before", "jobs", "after"),
    [
        (None, measured(3), measured(3)),
        (measured(1, 2), None, measured(1, 2)),
        (measured(1, 2, worst=90), measured(2, 7), measured(1, 2, 7, worst=90)),
        (measured(1, 3, 5, 7, 9), measured(3, 4), measured(1, 3, 4, 5, 9)),
        (measured(1, 3, 5, 7, 9), measured(10, 20, 30, 40), measured(5, 10, 20, 30, 40)),
        (measured(1, 2, worst=90), measured(5, 6, 7, 8, 9), measured(5, 6, 7, 8, 9)),  # an old outlier is forgotten
    ],
)
def test_what_is_remembered_fills_up_what_jobs_measured(before, jobs, after):
    assert profile_knowledge.merge_measured(before, jobs) == after
    assert profile_knowledge.merge_measured(after, jobs) == after


# Spells

FRESH_S = FRESH.total_seconds()


@pytest.mark.parametrize(
    ("before", "jobs", "after"),
    [
        (None, [], None),
        (spell("Up", -9, -5), [], spell("Up", -9, -5)),
        (None, [spell("Up", -9, -5)], spell("Up", -9, -5)),
        # Jobs that come and go watch one after the other.
        (spell("Up", -9000, -60), [spell("Up", -50, 0)], spell("Up", -9000, 0)),
        (spell("Refused", -9000, -60), [spell("Refused", -50, 0)], spell("Refused", -9000, 0)),
        (spell("Lost", -9000, -60), [spell("Refused", -50, 0)], spell("Refused", -9000, 0)),
        (spell("Up", -9000, -60 - FRESH_S), [spell("Up", -59, 0)], spell("Up", -59, 0)),  # nobody looked for too long
        (spell("Up", -9000, -60), [spell("Lost", -50, -50)], spell("Lost", -50, -50)),
        # One job keeps its node, and another one is refused.
        (spell("Up", -9000, -10), [spell("Refused", -50, -20)], spell("Refused", -50, -20)),
        (spell("Refused", -50, -20), [spell("Up", -9000, 0)], spell("Refused", -50, -20)),
        (spell("Refused", -50, -20), [spell("Up", -10, 0)], spell("Up", -10, 0)),
        (spell("Refused", -50, -20), [spell("Up", -9000, 0), spell("Up", -10, -5)], spell("Up", -20, 0)),
        (spell("Up", -9000, -30), [spell("Refused", -50, -20), spell("Up", -10, 0)], spell("Up", -20, 0)),
        (spell("Refused", -9000, -FRESH_S - 1), [spell("Up", -9500, 0)], spell("Up", -FRESH_S - 1, 0)),
        # Written by hand, or by a leader whose clock is ahead.
        (spell("Up", 1e6, 2e6), [spell("Lost", -5, -5)], spell("Up", 0, 0)),
        (spell("Up", -9000, 30), [spell("Up", -50, 0)], spell("Up", -9000, 0)),
    ],
)
def test_a_spell_is_as_old_as_everybodys_watch_on_it(before, jobs, after):
    assert profile_knowledge.merge_spells(before, jobs, NOW) == after
    assert profile_knowledge.merge_spells(after, jobs, NOW) == after


def test_a_time_in_the_future_holds_nothing_back_for_long():
    found = profile_knowledge.merge_spells(spell("Up", 1e6, 2e6), [], NOW)
    assert found == spell("Up", 0, 0)
    assert profile_knowledge.merge_spells(found, [spell("Lost", 6, 6)], at(6)) == spell("Lost", 6, 6)


# What is news

STORED = CapacityProfileStatus(tiers=(known(losses=1, had=SECOND, **seen("Up", -900, -300)),))


@pytest.mark.parametrize(
    ("after", "news", "changed"),
    [
        (known(losses=1, had=299 * SECOND, **seen("Up", -900, -1)), False, False),
        (known(losses=1, had=300 * SECOND, **seen("Up", -900, 0)), True, False),
        (known(losses=2, had=SECOND, **seen("Up", -900, -300)), True, False),
        (known(losses=1, had=SECOND, **seen("Lost", -290, -290)), True, True),
        (known(losses=1, had=SECOND, start=measured(1), **seen("Up", -900, -300)), True, False),
    ],
)
def test_passing_time_alone_is_not_news(after, news, changed):
    status = CapacityProfileStatus(tiers=(after,))
    assert profile_knowledge.is_news(STORED, status) == news
    assert profile_knowledge.availability_changed(STORED, status) == changed


def test_what_is_counted_is_news_if_a_job_with_losses_is_gone():
    counted = STORED.model_copy(update={"counted": (Counted(tier="spot", losses=1, hours=3),)})
    older = STORED.model_copy(update={"counted": (Counted(tier="spot", losses=1, hours=4),)})
    assert profile_knowledge.is_news(counted, STORED)
    assert not profile_knowledge.is_news(older, counted)
