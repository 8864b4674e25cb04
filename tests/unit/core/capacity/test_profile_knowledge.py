"""What the jobs of a profile know of its tiers, merged with what the profile remembers of deleted jobs."""

from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.histories import histories
from tests.support.decisions.snapshots import NOW, at, attempt, status, tier
from tests.support.decisions.snapshots import job as training_job
from tests.support.decisions.tier_views import SECOND, known, measured, seen

from holdfast.api.knowledge import MAX_MEASURED, MAX_REFUSALS, MAX_SHAPES, MAX_TIERS, Seen, ShapeKnowledge
from holdfast.api.profile import CapacityProfileStatus, Counted
from holdfast.core.capacity import profile_knowledge
from holdfast.core.capacity.interruptions import InterruptionCount
from holdfast.core.capacity.knowledge import find
from holdfast.core.capacity.profile_knowledge import JobView
from holdfast.core.capacity.spells import FRESH, Spell, shared_spell
from holdfast.core.observe.demand import Demand

UP = seen("Up", -590, -590)
NAMES = ("spot", "dedicated", "cpu")
EMPTY = CapacityProfileStatus()


SHAPE = Demand(1, Fraction(4), Fraction(2**30))


def seen_by(job, namespace="vision", demand=SHAPE, on=(), obtained=NAMES):
    """A job that has had nodes of all tiers, so that its pods are known to fit."""
    return JobView(
        namespace, demand, job, dict.fromkeys(on, 1) if not isinstance(on, dict) else on, frozenset(obtained)
    )


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
        acquire=measured(1, 9), start=measured(7, worst=70), interruptions=1, node_time=SECOND, pace=SECOND,
        observation="Free", **UP,
    )  # fmt: skip
    gone = seen("TookBack", -100, -100)
    other = known(acquire=measured(5), interruptions=2, node_time=2 * SECOND, observation="Billed", **gone)
    counts = {"spot": InterruptionCount(3, 3.5 * SECOND)}
    expected = shaped(known(
        acquire=measured(1, 5, 9), start=measured(7, worst=70), interruptions=3, node_time=3 * SECOND,
        observation="Billed", **gone,
    ))  # fmt: skip
    found = together([(one,), (other, known("cpu"), known("of another grid"))], totals=counts, level=counts)
    assert found.tiers == (expected, known("cpu"))
    assert found.counted == (Counted(tier="spot", interruptions=3, hours="0.000972"),)
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
    found = together(jobs, CapacityProfileStatus(tiers=before), totals={"spot": InterruptionCount(99, SECOND)})
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
    before = CapacityProfileStatus(tiers=(known("renamed", interruptions=3, **UP),))
    assert together([], before).tiers == ()


# A refusal counts for other jobs only if one tenant alone cannot have caused it

RUNS = (known(**seen("Up", -7200, 0)),)
WAITS = (known(**seen("Refused", -61, 0)),)
ALSO = {"on": ("spot",)}
HUGE = Demand(1, Fraction(100_000), Fraction(2**30))
CROWD = [seen_by(RUNS, **ALSO) for _ in range(40)]


def told(namespace, *jobs, accelerators=1, before=EMPTY):
    """What a job of the namespace reads of spot in the profile."""
    spell = shared_spell(find(together(jobs, before, now=NOW).tiers, "spot"), accelerators, namespace)
    return spell.state if spell else None


def waiting(namespace, count=1, demand=SHAPE, obtained=NAMES):
    return [seen_by(WAITS, namespace, demand, obtained=obtained) for _ in range(count)]


@pytest.mark.parametrize(
    ("jobs", "at_home", "elsewhere"),
    [
        ([*CROWD, *waiting("evil")], Seen.REFUSED, Seen.UP),
        ([*CROWD, *waiting("evil", 90)], Seen.REFUSED, Seen.UP),
        (waiting("evil", 90), Seen.REFUSED, None),
        # Its own nodes prove nothing to others: neither those that it has now, nor earlier ones.
        ([seen_by(RUNS, "evil", HUGE, **ALSO), *waiting("evil", 9, HUGE)], Seen.REFUSED, Seen.UP),
        ([seen_by((), "evil", HUGE, obtained=("spot",)), *waiting("evil", 9, HUGE)], Seen.REFUSED, None),
        ([seen_by((), "vision", HUGE, obtained=("spot",)), *waiting("evil", 9, HUGE, obtained=())], None, None),
        # At home a pod of that size must be known to fit, and most of the jobs must wait.
        (waiting("evil", obtained=()), None, None),
        ([*waiting("evil", demand=HUGE, obtained=()), seen_by((), "evil", obtained=("spot",))], None, None),
        ([*waiting("evil", obtained=()), seen_by((), "evil", HUGE, obtained=("spot",))], Seen.REFUSED, None),
        ([*waiting("evil"), *(seen_by(RUNS, "evil", **ALSO) for _ in range(2))], Seen.UP, Seen.UP),
        ([*waiting("evil", 2), seen_by(RUNS, "evil", **ALSO)], Seen.REFUSED, Seen.UP),
        # Another namespace confirms it.
        ([*CROWD, *waiting("evil"), *waiting("language")], Seen.REFUSED, Seen.REFUSED),
        ([*waiting("evil"), *waiting("language", demand=SHAPE._replace(accelerators=8))], Seen.REFUSED, None),
    ],
)
def test_a_refusal_counts_for_others_only_if_two_namespaces_are_refused(jobs, at_home, elsewhere):
    assert told("evil", *jobs) is at_home
    assert told("vision", *jobs) is elsewhere


def test_what_two_namespaces_are_refused_counts_for_as_many_accelerators_or_more():
    eight = SHAPE._replace(accelerators=8)
    jobs = [*waiting("evil"), *waiting("language", demand=eight)]
    assert [told("vision", *jobs, accelerators=number) for number in (1, 7, 8, 9)] == [None, None, *2 * [Seen.REFUSED]]


# Breaks if a tenant can tell others of nodes that nobody got, by an edit of acceleratorsPerNode.
def test_what_a_job_saw_before_an_edit_counts_for_what_it_asked_for_then():
    ran = seen_by((known(**seen("Up", -7200, 0), accelerators=1),), "evil", SHAPE._replace(accelerators=8))
    found = [told("vision", ran, accelerators=n) for n in (1, 2, 8)]
    assert found == [Seen.UP, None, None]
    waited = (known(**seen("Refused", -61, 0), accelerators=8),)
    assert told("vision", seen_by(waited, "evil"), seen_by(waited, "language"), accelerators=8) is None


@pytest.mark.parametrize(("asked", "fits"), [(None, {"spot"}), (1, {"spot"}), (8, set())])
def test_nodes_that_a_job_had_before_an_edit_do_not_show_that_its_pods_fit(asked, fits):
    now = training_job(status(attempt(accelerators=asked, tier=tier("dedicated"))))
    found = JobView.of(now, (known(node_time=SECOND, accelerators=asked),))
    assert (set(found.on), found.obtained) == (({"dedicated"}, fits | {"dedicated"}) if fits else (set(), set()))


def test_nodes_of_many_sizes_hide_no_refusal():
    """Breaks if one tenant can push out what two others saw, by jobs with many different numbers of accelerators."""
    many = [seen_by(RUNS, "evil", SHAPE._replace(accelerators=number), **ALSO) for number in range(2, 60)]
    assert told("vision", *many, *waiting("vision"), *waiting("language"), accelerators=1) is Seen.REFUSED


def test_a_refusal_at_home_is_remembered_for_a_while():
    before = together(waiting("evil"), now=NOW)
    assert told("evil", before=before) is Seen.REFUSED
    late = together([], before, now=NOW + FRESH + SECOND)
    assert find(late.tiers, "spot").refusals == ()


def test_a_profile_remembers_a_bounded_number_of_refusals():
    jobs = [job for number in range(30) for job in waiting("evil", demand=SHAPE._replace(accelerators=number))]
    found = together(jobs, now=NOW)
    assert len(find(found.tiers, "spot").refusals) == MAX_REFUSALS
    assert together(jobs, found, now=NOW) == found
    assert CapacityProfileStatus.model_validate(found.to_object()) == found


def test_a_refusal_at_home_is_news():
    before, after = together(CROWD, now=NOW), together([*CROWD, *waiting("evil")], now=NOW)
    assert profile_knowledge.availability_changed(before, after)
    assert profile_knowledge.is_news(before, after)
    later = together([*CROWD, seen_by((known(**seen("Refused", -61, 300)),), "evil")], after, now=at(300))
    assert profile_knowledge.is_news(after, later)


def test_a_pod_that_cannot_use_a_tier_says_nothing_about_it():
    unfit = (known(**seen("Unfit", -900, 0)),)
    both = [seen_by(unfit, "vision"), seen_by(unfit, "language")]
    assert [told(namespace, *both) for namespace in ("vision", "language", "evil")] == [None] * 3
    assert told("vision", *CROWD, *(seen_by(unfit, "evil") for _ in range(9))) is Seen.UP


# Whatever a tenant does without getting a node of the tier


def views(namespaces, states, **more):
    """Jobs that saw a tier in one of these states in the last half hour."""

    def make(*, namespace, number, state, ago, lasted, on, obtained):
        job = (known(**seen(state, -ago - lasted, -ago), **more),) if state else (known(**more),)
        demand = SHAPE._replace(accelerators=number, cpu=Fraction(number or 1))
        return seen_by(job, namespace, demand, on=("spot",) if on else (), obtained=NAMES if obtained else ())

    seconds = st.integers(0, 1800)
    return st.builds(
        make,
        namespace=st.sampled_from(namespaces),
        number=st.sampled_from((0, 1, 2, 8, 64)),
        state=st.sampled_from(states),
        ago=seconds,
        lasted=seconds,
        on=st.booleans(),
        obtained=st.booleans(),
    )


FORGED = st.lists(views(("evil",), ("Refused", "Refused", "Unfit", None), start=measured(1e6)), max_size=6)
HONEST = st.lists(views(("vision", "language"), ("Up", "TookBack", "Unfit", None), acquire=measured(5)), max_size=4)


@given(st.lists(st.tuples(HONEST, FORGED), min_size=1, max_size=4))
def test_no_sequence_of_jobs_of_one_namespace_changes_what_others_read(rounds):
    """Breaks if one tenant can take a tier out for others, make it look available, or change what was counted of it."""
    alone = beside = EMPTY
    for number, (honest, forged) in enumerate(rounds):
        now = at(200 * number)
        alone, beside = together(honest, alone, now=now), together([*honest, *forged], beside, now=now)
        one, other = (find(status.tiers, "spot") or known() for status in (alone, beside))
        for namespace, accelerators in product(("vision", "language", "new"), (0, 1, 4, 8, 64)):
            assert shared_spell(other, accelerators, namespace) == shared_spell(one, accelerators, namespace)
        for field in ("shapes", "interruptions", "node_time", "acquire", "observation"):
            assert getattr(other, field) == getattr(one, field)


def test_a_refused_job_of_many_accelerators_says_nothing_to_one_of_few():
    eight = SHAPE._replace(accelerators=8)
    jobs = [*CROWD, *waiting("vision", demand=eight), *waiting("language", demand=eight)]
    found = find(together(jobs, now=NOW).tiers, "spot")
    assert [(shape.accelerators, shape.state) for shape in found.shapes] == [(1, Seen.UP), (8, Seen.REFUSED)]
    assert found.state is Seen.UP


def test_a_tier_that_goes_out_for_one_shape_alone_is_a_change():
    eight = SHAPE._replace(accelerators=8)
    before = together(CROWD, now=NOW)
    after = together([*CROWD, *waiting("vision", demand=eight), *waiting("language", demand=eight)], now=NOW)
    assert profile_knowledge.availability_changed(before, after)
    assert profile_knowledge.is_news(before, after)


def test_a_profile_remembers_a_bounded_number_of_shapes():
    jobs = [seen_by(RUNS, demand=SHAPE._replace(accelerators=number)) for number in range(MAX_SHAPES + 3)]
    found = together(jobs, now=NOW)
    assert len(find(found.tiers, "spot").shapes) == MAX_SHAPES
    assert together(jobs, found, now=NOW) == found


# Jobs that are gone


def test_what_jobs_knew_stays_known():
    remembered = shaped(known(acquire=measured(4), observation="Billed", interruptions=2, **UP))
    before = CapacityProfileStatus(tiers=(remembered,))
    after = together([], before, totals={"spot": InterruptionCount(2)})
    assert after.tiers == before.tiers
    newer = together([(known(observation="Free"),)], after, totals={"spot": InterruptionCount(2)})
    assert newer == after, "Free says no more than that nodes stood there"


def test_people_see_which_tiers_are_up():
    job = (known(**UP), known("dedicated", **seen("Refused", -9, -5)), known("cpu", interruptions=1))
    lost = (known("spot-2", **seen("TookBack", -9, -9)), known("cpu-2", **UP))
    tiers = (*NAMES, "spot-2", "cpu-2")
    found = together([seen_by(one, obtained=tiers) for one in (job, lost)], tiers=tiers, now=NOW)
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
        (spell("TookBack", -9000, -60), [spell("Refused", -50, 0)], spell("Refused", -9000, 0)),
        (
            spell("Up", -9000, -60 - FRESH_S),
            [spell("Up", -59, 0)],
            spell("Up", -59, 0),
        ),  # the last observation is too old
        (spell("Up", -9000, -60), [spell("TookBack", -50, -50)], spell("TookBack", -50, -50)),
        # One job keeps its node, and another one is refused.
        (spell("Up", -9000, -10), [spell("Refused", -50, -20)], spell("Refused", -50, -20)),
        (spell("Refused", -50, -20), [spell("Up", -9000, 0)], spell("Refused", -50, -20)),
        (spell("Refused", -50, -20), [spell("Up", -10, 0)], spell("Up", -10, 0)),
        (spell("Refused", -50, -20), [spell("Up", -9000, 0), spell("Up", -10, -5)], spell("Up", -20, 0)),
        (spell("Up", -9000, -30), [spell("Refused", -50, -20), spell("Up", -10, 0)], spell("Up", -20, 0)),
        (spell("Refused", -9000, -FRESH_S - 1), [spell("Up", -9500, 0)], spell("Up", -FRESH_S - 1, 0)),
        # Written by hand, or by a leader whose clock is ahead.
        (spell("Up", 1e6, 2e6), [spell("TookBack", -5, -5)], spell("Up", 0, 0)),
        (spell("Up", -9000, 30), [spell("Up", -50, 0)], spell("Up", -9000, 0)),
    ],
)
def test_a_spell_is_as_old_as_everybodys_watch_on_it(before, jobs, after):
    assert profile_knowledge.merge_spells(before, jobs, NOW) == after
    assert profile_knowledge.merge_spells(after, jobs, NOW) == after


def test_a_time_in_the_future_holds_nothing_back_for_long():
    found = profile_knowledge.merge_spells(spell("Up", 1e6, 2e6), [], NOW)
    assert found == spell("Up", 0, 0)
    assert profile_knowledge.merge_spells(found, [spell("TookBack", 6, 6)], at(6)) == spell("TookBack", 6, 6)


# What is news

STORED = CapacityProfileStatus(tiers=(known(interruptions=1, node_time=SECOND, **seen("Up", -900, -300)),))


@pytest.mark.parametrize(
    ("after", "news", "changed"),
    [
        (known(interruptions=1, node_time=299 * SECOND, **seen("Up", -900, -1)), False, False),
        (known(interruptions=1, node_time=300 * SECOND, **seen("Up", -900, 0)), True, False),
        (known(interruptions=2, node_time=SECOND, **seen("Up", -900, -300)), True, False),
        (known(interruptions=1, node_time=SECOND, **seen("TookBack", -290, -290)), True, True),
        (known(interruptions=1, node_time=SECOND, start=measured(1), **seen("Up", -900, -300)), True, False),
    ],
)
def test_passing_time_alone_is_not_news(after, news, changed):
    status = CapacityProfileStatus(tiers=(after,))
    assert profile_knowledge.is_news(STORED, status) == news
    assert profile_knowledge.availability_changed(STORED, status) == changed


def test_what_is_counted_is_news_if_a_job_with_interruptions_is_gone():
    counted = STORED.model_copy(update={"counted": (Counted(tier="spot", interruptions=1, hours=3),)})
    older = STORED.model_copy(update={"counted": (Counted(tier="spot", interruptions=1, hours=4),)})
    assert profile_knowledge.is_news(counted, STORED)
    assert not profile_knowledge.is_news(older, counted)


@pytest.mark.parametrize(("had", "wants", "told"), [(1, 1, Seen.UP), (1, 4, None), (4, 4, Seen.UP), (8, 4, Seen.UP)])
def test_a_large_training_learns_that_a_tier_is_up_only_from_one_as_large(had, wants, told):
    """Breaks if a node for a job of one node says that there are nodes for a training of 64."""
    up = seen_by((known(**seen("Up", -590, -5), accelerators=1),), on={"spot": had})
    found = find(together([up], now=NOW).tiers, "spot")
    read = shared_spell(found, 1, "language", wants)
    assert (read.state if read else None) is told
    kept = find(together([], CapacityProfileStatus(tiers=(found,)), now=NOW).tiers, "spot")
    assert kept.shapes == found.shapes, "it is remembered when that job is deleted"
