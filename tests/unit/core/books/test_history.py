"""Attempts that are over: bounded, counted once, with the cost of interruptions."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import (
    at,
    attempt,
    ended,
    job,
    pod,
    settled,
    snapshot,
    status,
    stepped,
    stored,
    tier,
    verdict,
)

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.core.books.history import BYTES, LENGTH, append
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import is_live


def record(number, **changes):
    fields = {
        "tier": "spot",
        "kind": EndKind.INTERRUPTION,
        "reason": "NodeGone",
        "raised_at": at(-900),
        "ended_at": at(-60),
    }
    return AttemptRecord(**{"number": number, **fields, **changes})


@given(st.lists(st.integers(0, 2560), max_size=60))
def test_it_stays_small_and_counts_every_attempt_once(lengths):
    draft = Draft(snapshot(job(status())))
    for number, length in enumerate(lengths, start=1):
        append(draft, record(number, message="x" * length), "Spot")
    history, ledger = draft.status.history, draft.status.ledger
    assert len(history) <= LENGTH
    assert sum(len(json.dumps(entry.to_object())) for entry in history) <= BYTES + 4096  # spaces, by json.dumps
    assert ledger.attempts == len(lengths)
    assert ledger.folded_through + len(history) == len(lengths)
    assert [entry.number for entry in history] == list(range(ledger.folded_through + 1, len(lengths) + 1))


def test_wide_characters_count_as_bytes():
    draft = Draft(snapshot(job(status())))
    for number in range(1, 21):
        append(draft, record(number, message="🔥" * 1024), "Spot")
    stored_bytes = json.dumps([entry.to_object() for entry in draft.status.history], ensure_ascii=False).encode()
    assert len(stored_bytes) <= BYTES + 1024  # brackets, commas and spaces


def test_folding_leaves_the_counters_alone():
    given_job = job(status(attempt(30, fenced=True, first_step=1), restarts={"interruptions": 29, "failures": 2},
                           history=tuple(record(n) for n in range(10, 30)),
                           ledger={"attempts": 29, "folded_through": 9, "steps_lost": 7}))  # fmt: skip
    decision = settled(snapshot(given_job, ended(30, 0, verdict("drained", "SavedAndLeft"), deleted_at=at(0))))
    after = decision.status
    assert (after.restarts.interruptions, after.restarts.failures) == (30, 2)
    assert (after.ledger.attempts, after.ledger.folded_through, after.ledger.steps_lost) == (30, 10, 7)
    assert [entry.number for entry in after.history] == list(range(11, 31))


def test_an_end_is_counted_once_however_often_it_is_seen():
    view = (ended(1, 137, trainer=ended(1, 137).trainer),)
    first = settled(snapshot(job(status(attempt(fenced=True))), *view))
    again = settled(snapshot(stored(job(status(attempt(fenced=True))), first.status), *view))
    assert again.status.restarts.interruptions == 1
    assert again.status.ledger.attempts == 1


def settle(*history, resumed, **report):
    before = job(status(attempt(5, raised_at=at(-450)), history=history))
    return settled(snapshot(before, pod(5), reports=[stepped(5, resumed_step=resumed, **report)])).status


def test_the_first_step_settles_the_last_interruption():
    last = record(4, first_step=1, last_step=480, last_step_at=at(-700), steps=480)
    after = settle(last, resumed=450)
    assert (after.history[0].steps_lost, after.history[0].seconds_lost) == (30, timedelta(seconds=300))
    assert (after.ledger.steps_lost, after.ledger.seconds_lost) == (30, timedelta(seconds=300))


def test_a_resumed_checkpoint_proves_steps_that_were_not_reported():
    """The operator was away, and the node was gone before the pod's end could be reported."""
    after = settle(record(4, first_step=1, last_step=1, steps=1), resumed=148)
    assert (after.history[0].last_step, after.history[0].steps_trained, after.history[0].steps_lost) == (148, 148, 0)


# Breaks if an attempt that resumed and ended before its first step hides the steps that the one before it lost.
@pytest.mark.parametrize(
    ("between", "resumed", "lost"),
    [
        ([record(4)], 480, 0),
        ([record(4, resumed_step=450, last_step=450)], 450, 30),
        ([record(4, resumed_step=450, last_step=450), record(5), record(6, last_step=450)], 450, 30),
        ([record(4, resumed_step=480, last_step=480)], 480, 0),
        ([record(4, last_step=450)], None, 480),
    ],
    ids=["no step known", "it resumed", "three of them", "all was saved", "then it started over"],
)
def test_attempts_without_a_step_belong_to_the_same_interruption(between, resumed, lost):
    last = record(3, first_step=1, last_step=480, last_step_at=at(-700), steps=480)
    after = settle(last, *between, resumed=resumed)
    assert (after.history[0].seconds_lost, after.history[0].steps_lost) == (timedelta(seconds=300), lost)
    assert (after.ledger.steps_lost, after.ledger.seconds_lost) == (lost, timedelta(seconds=300))
    assert [one.seconds_lost for one in after.history[1:]] == [None] * len(between)


# Breaks if an attempt that ended before a step is billed once more, when a later attempt has gone back further than it.
def test_an_interruption_does_not_count_those_before_it():
    first = record(2, first_step=1, last_step=480, last_step_at=at(-800), seconds_lost=timedelta(seconds=9))
    went_back = record(4, first_step=201, last_step=290, last_step_at=at(-700), steps=90)
    after = settle(first, record(3, resumed_step=320, last_step=320), went_back, resumed=285)
    assert [one.steps_lost for one in after.history] == [None, None, 5]
    assert after.ledger.steps_lost == 5


# Breaks if an attempt that only resumed is taken for the one that did steps of which no report came.
def test_steps_that_were_not_reported_are_those_of_the_attempt_that_trained():
    last = record(3, first_step=1, last_step=470, last_step_at=at(-700), steps=470)
    after = settle(last, record(4, resumed_step=480, last_step=480), resumed=480)
    assert (after.history[0].last_step, after.history[0].steps_trained, after.ledger.steps_lost) == (480, 480, 0)
    assert after.ledger.seconds_lost == timedelta(seconds=300)


# Breaks if the steps of a successor, which went on before the end of the attempt before it was seen, are not counted.
def test_the_record_of_a_successor_that_trained():
    current = attempt(1, fenced=True, first_step=1, last_step=499)
    follower = attempt(2, predecessor=1, go=1, scheduled_at=at(-60))
    told = stepped(2, step=503, resumed_step=499)
    both = snapshot(job(status(current, successor=follower)), pod(), ended(2, 137, node="n2"), reports=[told])
    (entry,) = settled(both).status.history
    assert (entry.number, entry.first_step, entry.last_step, entry.steps_trained) == (2, 500, 503, 4)


# Breaks if all lost steps are said to be counted although the attempt that may have lost some is not in the history any
# more.
def test_steps_lost_are_not_known_once_the_record_is_dropped():
    draft = Draft(snapshot(job(status())))
    append(draft, record(1, first_step=1, last_step=480, steps=480), "Spot")
    for number in range(2, LENGTH + 1):
        append(draft, record(number), "Spot")
    assert draft.status.ledger.uncounted_restarts == 0
    for number in range(LENGTH + 1, 2 * LENGTH):
        append(draft, record(number), "Spot")
    assert draft.status.ledger.uncounted_restarts == 1


def test_each_interruption_is_settled_with_the_attempts_after_the_last_one():
    before = record(2, first_step=1, last_step=900, last_step_at=at(-800), seconds_lost=timedelta(seconds=9))
    last = record(3, first_step=401, last_step=480, last_step_at=at(-700), steps=80)
    after = settle(before, last, resumed=450)
    assert (after.history[0], after.history[1].steps_lost, after.ledger.steps_lost) == (before, 30, 30)


def test_an_interruption_is_settled_once():
    last = record(4, last_step=480, last_step_at=at(-700), steps_lost=1, seconds_lost=timedelta(seconds=1))
    after = settle(last, resumed=450)
    assert after.ledger.steps_lost == 0
    assert after.history[0] == last


def test_starting_anew_loses_all_steps():
    assert settle(record(4, last_step=480), resumed=None).ledger.steps_lost == 480


# Breaks if a program that resumes from checkpoints of its own is said to have lost all its steps, or none.
def test_steps_lost_are_not_known_of_a_program_without_the_library():
    last = record(4, first_step=1, last_step=480, last_step_at=at(-700), steps=480)
    after = settle(last, resumed=None, senders=("Relay",))
    assert (after.history[0].steps_lost, after.history[0].seconds_lost) == (None, timedelta(seconds=300))
    assert (after.ledger.steps_lost, after.ledger.uncounted_restarts) == (0, 1)
    assert after.ledger.recovery.replay == timedelta(0)
    assert settle(last, resumed=450).ledger.uncounted_restarts == 0


# Breaks if a program in a folder is said to have lost no step although its last report is older than its checkpoint.
@pytest.mark.parametrize(
    ("last", "already", "ignored", "lost"),
    [
        (480, None, None, 30),
        (450, None, None, None),
        (448, None, None, None),
        (450, 0, None, 0),
        (480, None, 450, None),
    ],
)
def test_steps_lost_of_a_program_with_a_folder(last, already, ignored, lost):
    before = record(4, first_step=1, last_step=last, last_step_at=at(-700), steps=last, steps_lost=already)
    resumed = 450 if ignored is None else None
    after = settle(before, resumed=resumed, senders=("Relay", "Folder"), ignored_step=ignored)
    assert (after.history[0].steps_lost, after.ledger.uncounted_restarts) == (lost, int(lost is None))
    assert after.ledger.steps_lost == (lost or 0)


# Breaks if a program that goes on at step 200 is said to have lost 215 steps, because its `ckpt.pt` says no step.
@pytest.mark.parametrize(("without_step", "lost"), [(True, None), (False, 215)])
def test_steps_lost_are_not_known_if_what_was_put_back_says_no_step(without_step, lost):
    before = record(4, first_step=1, last_step=215, last_step_at=at(-700), steps=215)
    after = settle(before, resumed=None, senders=("Relay", "Folder"), put_back_without_step=without_step)
    assert (after.history[0].steps_lost, after.ledger.uncounted_restarts) == (lost, int(lost is None))


def test_a_suspension_is_not_lost_time():
    last = record(4, reason="Suspended", kind=EndKind.STOPPED, last_step=480, last_step_at=at(-90_000))
    assert settle(last, resumed=480).ledger.seconds_lost == timedelta(seconds=50)


# Breaks if days of a suspension are lost time, when the suspended attempt had not taken a step.
def test_a_suspension_before_the_first_step_is_not_lost_time():
    last = record(2, first_step=1, last_step=480, last_step_at=at(-90_000))
    paused = record(3, kind=EndKind.STOPPED, reason="Suspended", resumed_step=480, last_step=480, ended_at=at(-86_400))
    assert settle(last, paused, resumed=480).ledger.seconds_lost == timedelta(seconds=50)
    assert settle(last, paused, record(4, raised_at=at(-480)), resumed=480).ledger.seconds_lost == timedelta(seconds=80)


def test_lost_time_is_never_negative():
    assert settle(record(4, last_step=480, last_step_at=at(900)), resumed=480).ledger.seconds_lost == timedelta(0)


def test_the_record_of_an_attempt():
    before = job(status(attempt(fenced=True, first_step=500, resumed_step=499)))
    entry = settled(snapshot(before, ended(1, 1), reports=[stepped(step=700)])).status.history[0]
    assert (entry.node, entry.tier, entry.first_step, entry.last_step) == ("n1", "spot", 500, 700)
    assert entry.steps_trained == 201
    assert (entry.resumed_step, entry.started_at, entry.ended_at) == (499, at(-500), at(-1))


def test_the_verdict_has_steps_that_no_report_had():
    before = job(status(attempt(fenced=True, first_step=500)))
    view = ended(1, 0, verdict("drained", "SavedAndLeft", step=705), deleted_at=at(0))
    assert settled(snapshot(before, view, reports=[stepped(step=700)])).status.history[0].last_step == 705


# Breaks if nobody is told that a program does not resume from what was put back.
def test_a_program_that_does_not_resume_is_told():
    news = stepped(5, resumed_step=None, senders=("Relay", "Folder"), ignored_step=450)
    decision = settled(snapshot(job(status(attempt(5, raised_at=at(-450)))), pod(5), reports=[news]))
    (event,) = [event for event in decision.events if event.reason == "NotResumed"]
    assert "step 450 was put back" in event.message


# Breaks if a program that saves its last step on SIGTERM is said to have lost steps, or one that does not none.
@pytest.mark.parametrize(("reason", "lost"), [("SavedAndLeft", 0), ("LeftWithoutSaving", None)])
def test_the_record_of_a_program_with_a_folder(reason, lost):
    view = ended(1, 0, verdict("drained", reason, step=705), deleted_at=at(0))
    given = snapshot(job(status(attempt(first_step=500))), view, reports=[stepped(senders=("Relay", "Folder"))])
    assert settled(given).status.history[0].steps_lost == lost


def test_a_long_wait_for_capacity_does_not_push_out_what_happened_before():
    draft = Draft(snapshot(job(status())))
    tiers = len(draft.snapshot.job.spec.capacity.tiers)
    append(draft, record(1), "Spot")
    for number in range(2, 60):
        append(draft, record(number, kind=EndKind.STOPPED, reason="AcquireTimeout"), "Spot")
    numbers = [entry.number for entry in draft.status.history]
    assert numbers == [1, *range(60 - tiers, 60)], "the interruption, and the newest walk of the grid"
    assert draft.status.ledger.attempts == 59


def test_an_end_costs_what_its_node_cost_to_a_hundredth_of_a_cent():
    priced = tier().model_copy(update={"price_per_node_hour": Decimal("3.06")})
    running = attempt(fenced=True, tier=priced, scheduled_at=at(-1001))
    before = {"by_tier": [{"tier": "dedicated", "kind": "Dedicated", "spent": "0.15"}]}
    gone = settled(snapshot(job(status(running, ledger=before)), ended(1, 1)))
    assert gone.status.history[-1].cost == Decimal("0.8500")  # 1,000 s at 3.06 an hour
    assert gone.status.ledger.spent == Decimal("1.0000")


def test_the_cost_of_a_tier_without_a_price_is_not_known():
    free = tier().model_copy(update={"price_per_node_hour": None})
    gone = settled(snapshot(job(status(attempt(fenced=True, tier=free, scheduled_at=at(-1000)))), ended(1, 1)))
    assert gone.status.history[-1].cost is None
    assert gone.status.ledger.spent == 0


def test_a_live_attempt_is_never_folded_because_of_its_successors():
    """Twenty-five successors were lost while attempt 1 trained on."""
    current = attempt(1, fenced=True, first_step=500)
    stored = status(current)
    for number in range(2, 27):
        follower = attempt(number, predecessor=1, scheduled_at=at(-60))
        given = job(stored.model_copy(update={"successor": follower, "attempt": number}))
        stored = settled(snapshot(given, pod(), ended(number, 137, node="n2"))).status
        assert stored.ledger.folded_through == 0
        assert is_live(stored, pod())
    assert len(stored.history) == 20
    over = settled(snapshot(job(stored), ended(1, 137))).status
    assert over.history[-1].number == 1
    assert over.ledger.attempts == 26
