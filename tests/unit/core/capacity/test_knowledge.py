"""What is known of the tiers, event by event."""

import pytest
from hypothesis import given
from tests.support.decisions.histories import TIERS, TIMES, histories, record
from tests.support.decisions.snapshots import NOW, at, attempt, drain, status, tier
from tests.support.decisions.tier_views import SECOND, known, measured, seen

from holdfast.api.attempt import AttemptState, EndKind, PodRecord
from holdfast.api.knowledge import MAX_MEASURED, MAX_TIERS, Seen, TierKnowledge
from holdfast.api.scalars import LONGEST
from holdfast.api.status import TrainingJobStatus
from holdfast.core.capacity import knowledge
from holdfast.core.observe.config import Assumptions

UP = seen("Up", -590, -590)


def only(found):
    (one,) = found
    return one


# A node


def test_a_node():
    got = attempt(state=AttemptState.STARTING, created_at=at(-600), scheduled_at=at(-590))
    assert only(knowledge.record_node((), got)) == known(acquire=measured(10), **UP)


# Breaks if a spell of pods that asked for fewer accelerators goes on as one of those that ask for more.
def test_a_spell_belongs_to_the_number_of_accelerators_of_its_attempt():
    before = (known(**seen("Up", -900, -600), accelerators=1),)
    got = attempt(state=AttemptState.STARTING, created_at=at(-600), scheduled_at=at(-590), accelerators=8)
    assert only(knowledge.record_node(before, got)) == known(acquire=measured(10), **UP, accelerators=8)
    same = got.model_copy(update={"accelerators": 1})
    assert only(knowledge.record_node(before, same)).since == at(-900)
    over, seen_now = record(), knowledge.record_sight(before, got, Assumptions().acquire_time, NOW, refused)
    ended = knowledge.record_end(before, over, accelerators=8)
    assert (only(ended).since, only(ended).accelerators) == (over.scheduled_at, 8)
    assert (only(seen_now).since, only(seen_now).accelerators) == (at(-590), 8)
    waited = knowledge.record_refusal(before, "spot", at(-700), at(-60), accelerators=8)
    assert (only(waited).state, only(waited).accelerators) == (Seen.REFUSED, 8)


# Breaks if old news relabels what pods of another size saw later.
def test_a_spell_that_stays_keeps_its_number_of_accelerators():
    later = (known(**seen("Up", -50, -10), accelerators=8),)
    waited = only(knowledge.record_refusal(later, "spot", at(-700), at(-60), accelerators=1))
    assert (waited.state, waited.accelerators) == (Seen.UP, 8)


@pytest.mark.parametrize(
    ("kind", "took", "counts"), [("spot", 290, True), ("spot", 310, False), ("dedicated", 9000, True)]
)
def test_an_outage_of_spot_is_not_a_time_to_acquire(kind, took, counts):
    waited = attempt(tier=tier(kind), created_at=at(0), acquire_deadline=at(300), scheduled_at=at(took))
    assert (only(knowledge.record_node((), waited)).acquire is not None) == counts


@pytest.mark.parametrize(
    ("before", "created", "found"),
    [
        (None, -9000, "Free"),
        (None, -600, "Free"),  # the API server's clock ticks once a second
        (None, -590, "Billed"),
        ("Free", -590, "Billed"),
        ("Billed", -9000, "Billed"),  # a node that another pod left behind
        ("Free", None, "Free"),
    ],
)
def test_a_node_that_was_created_for_the_pod_makes_the_tier_billed(before, created, found):
    got = attempt(created_at=at(-600))
    made = None if created is None else at(created)
    assert only(knowledge.record_node((known(observation=before),), got, made)).observation == found


NAMED = {"pods": (PodRecord(uid="u-1", node="n1", node_uid="u-n1"),)}  # the cluster did not give this node


def test_a_node_that_the_cluster_did_not_give_says_nothing():
    assert knowledge.record_node((), attempt(**NAMED), at(-595)) == ()
    given_status = status(attempt(**NAMED))
    assert knowledge.with_attempts(given_status, NOW, Assumptions().acquire_time, refused) == ()
    assert knowledge.record_end((), record(), granted=False, taken=True) == (known(pace=SECOND),)
    assert knowledge.record_end((), record(last_step=None), granted=False) == ()


def test_the_clock_of_the_scheduler_may_be_behind():
    assert only(knowledge.record_node((), attempt(created_at=at(-500)))).acquire == measured(0)


def test_without_a_node_or_a_step_nothing_is_learned():
    waiting = attempt(state=AttemptState.ACQUIRING)
    assert knowledge.record_node((), waiting) == knowledge.record_first_step((), waiting) == ()
    assert knowledge.record_first_step((), attempt()) == ()


# The first step


def test_a_start():
    stepped = attempt(progress_at=at(-400))
    assert only(knowledge.record_first_step((), stepped)).start == measured(190)
    assert (
        knowledge.record_first_step((), stepped.model_copy(update={"predecessor": 1})) == ()
    )  # it waited at the fence


def test_times_are_kept_to_a_tenth_of_a_second():
    assert only(knowledge.record_first_step((), attempt(progress_at=at(-400 + 1e-6)))).start == measured(190.1)


def test_the_last_few_times_are_kept_and_the_worst_of_all():
    found = ()
    for took in (500, 10, 20, 30, 40, 50, 60):
        found = knowledge.record_first_step(found, attempt(progress_at=at(-590 + took)))
    assert only(found).start == measured(20, 30, 40, 50, 60, worst=500)


# The end


def test_a_reclaim():
    found = only(knowledge.record_end((known(**UP, interruptions=2, node_time=60 * SECOND),), record(), taken=True))
    assert found == known(interruptions=3, node_time=660 * SECOND, pace=SECOND, **seen("TookBack", -60, -60))


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({"kind": EndKind.STOPPED, "reason": "Suspended"}, True),
        ({"kind": EndKind.FAILURE, "reason": "ExitCode"}, True),
        ({"kind": EndKind.COMPLETED, "reason": "Exited"}, True),
        ({"reason": "StorageUnreachable"}, False),
        ({"reason": "PodDeleted"}, False),
    ],
)
def test_an_end_that_the_tier_did_not_cause(changes, taken):
    found = only(knowledge.record_end((), record(**changes), taken=taken))
    assert (found.interruptions, found.state, found.since, found.seen_at) == (0, Seen.UP, at(-660), at(-60))
    assert found.node_time == 600 * SECOND


def test_a_tier_that_gives_no_node():
    waited = record(scheduled_at=None, kind=EndKind.STOPPED, reason="AcquireTimeout")
    assert only(knowledge.record_end((), waited)) == known(**seen("Refused", -700, -60))
    lost = (known(**seen("TookBack", -900, -800)),)
    assert only(knowledge.record_end(lost, waited)) == known(**seen("Refused", -900, -60))
    assert knowledge.record_refusal(lost, "spot", at(-700), at(-60)) == knowledge.record_end(lost, waited)


def test_a_pod_that_cannot_use_the_nodes_of_a_tier_is_remembered_as_such():
    waited = record(scheduled_at=None, kind=EndKind.STOPPED, reason="AcquireTimeout")
    found = only(knowledge.record_end((), waited, refusal=Seen.UNFIT))
    assert found == known(**seen("Unfit", -700, -60))


def test_an_attempt_that_was_given_up_before_it_had_a_node_says_nothing():
    assert knowledge.record_end((), record(scheduled_at=None, kind=EndKind.STOPPED, reason="Suspended")) == ()


@pytest.mark.parametrize(
    ("last", "last_at", "pace", "after_nine"),
    [
        (401, -60, SECOND, SECOND),
        (101, -360, SECOND, SECOND),
        (51, -410, SECOND, 5 * SECOND),  # few steps are averaged with the earlier pace
        (6, -455, SECOND, 8.6 * SECOND),
        (5, -456, None, 9 * SECOND),
        (401, -460, None, 9 * SECOND),
        (401, -9000, None, 9 * SECOND),
        (None, None, None, 9 * SECOND),
    ],
)
def test_the_pace_needs_a_few_steps_and_a_sane_clock(last, last_at, pace, after_nine):
    given_record = record(last_step=last, last_step_at=None if last_at is None else at(last_at))
    assert only(knowledge.record_end((), given_record)).pace == pace
    assert only(knowledge.record_end((known(pace=9 * SECOND),), given_record)).pace == after_nine


def test_the_pace_of_an_attempt_that_runs():
    runs = attempt(first_step=500, progress_at=at(-400), last_step=900, last_step_at=at(0))
    assert knowledge.pace_now(runs) == SECOND
    assert knowledge.pace_now(attempt()) is None
    few = attempt(first_step=500, progress_at=at(-50), last_step=550, last_step_at=at(0))
    assert knowledge.pace_now(few, 9 * SECOND) == 5 * SECOND


def test_node_time_is_bounded():
    assert only(knowledge.record_end((known(node_time=LONGEST),), record())).node_time == LONGEST


# Now


def refused(_):
    return Seen.REFUSED


def test_what_other_jobs_may_learn_now():
    minute = Assumptions().acquire_time
    given_status = status(attempt(), tiers=(known(node_time=60 * SECOND),))
    assert only(knowledge.with_attempts(given_status, NOW, minute, refused)) == known(
        node_time=60 * SECOND, **seen("Up", -590, 0)
    )
    lost = attempt(state=AttemptState.DRAINING, drain=drain())
    assert only(knowledge.with_attempts(status(lost), NOW, minute, refused)) == known(**seen("TookBack", -2, -2))
    second = tier().model_copy(update={"name": "second"})
    waits = attempt(2, AttemptState.ACQUIRING, tier=second, created_at=at(-61))
    both = knowledge.with_attempts(status(attempt(), successor=waits), NOW, minute, refused)
    assert knowledge.find(both, "second") == known("second", **seen("Refused", -61, 0))
    assert knowledge.with_attempts(status(attempt(2, AttemptState.ACQUIRING)), NOW, minute, refused) == ()
    assert knowledge.with_attempts(status(), NOW, minute, refused) == ()
    patient = status(waits, tiers=(known("second", acquire=measured(62)),))
    assert only(knowledge.with_attempts(patient, NOW, minute, refused)).state is None
    quick = status(waits, tiers=(known("second", acquire=measured(1)),))
    assert only(knowledge.with_attempts(quick, NOW, 62 * SECOND, refused)).state is None


# Bounds


def test_no_more_tiers_than_the_api_holds():
    many = tuple(known(f"t{number}", **seen("Up", -number, -number)) for number in range(MAX_TIERS))
    more = knowledge.record_refusal(many, "new", at(-1), at(0))
    assert len(more) == MAX_TIERS
    assert knowledge.find(more, "new")
    assert knowledge.find(more, "t15") is None  # seen longest ago


# Anything


@given(histories())
def test_any_history_fits_into_status_and_survives_a_restart(found):
    written = TrainingJobStatus(tiers=found).to_object()
    assert TrainingJobStatus.model_validate(written).tiers == found
    assert len({one.tier for one in found}) == len(found) <= MAX_TIERS
    for one in found:
        assert isinstance(one, TierKnowledge)
        for times in (one.acquire, one.start):
            assert times is None or (0 < len(times.recent) <= MAX_MEASURED and max(times.recent) <= times.worst)
        assert (one.state is None) == (one.since is None) == (one.seen_at is None)
        assert one.since is None or one.since <= one.seen_at


@given(histories(), TIERS, TIMES, TIMES)
def test_a_refusal_that_is_recorded_twice_counts_once(found, name, asked, now):
    once = knowledge.record_refusal(found, name, asked, now)
    assert knowledge.record_refusal(once, name, asked, now) == once


def test_events_do_not_touch_other_tiers():
    others = (known("dedicated", **UP), known("cpu"))
    found = knowledge.record_end((others[0], known(), others[1]), record())
    assert (found[0], found[2]) == others
