"""What is new in a status: attempts that left their nodes, and costs of interruptions."""

import ast
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.decisions.snapshots import (
    at,
    attempt,
    ended,
    job,
    pending,
    pod,
    settled,
    snapshot,
    status,
    stepped,
    stored,
    tier,
    verdict,
)

from holdfast import core
from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind, EndReason, Recovery
from holdfast.api.status import Ledger, TierTotals
from holdfast.core.status.node_exits import OTHER, REASONS, NodeExit, known_reason, new_recoveries, node_exits

# Ends of attempts that had no node, and ends of training itself: no node was left.
NO_EXIT = {
    "AcquireTimeout", "PodRefused", "PodInvalid", "TierRemoved", "OtherTier",
    "Exited", "ExitCode", "OutOfMemory", "CommandNotFound", "PythonIncomplete",
}  # fmt: skip


def record(number, **changes):
    fields = {"tier": "spot", "kind": EndKind.INTERRUPTION, "reason": "NodeGone", "raised_at": at(-900),
              "scheduled_at": at(-800), "ended_at": at(-60)}  # fmt: skip
    return AttemptRecord(**{"number": number, **fields, **changes})


def after_end(reason, kind):
    """The status before and after the end of attempt 1, which was ordered to leave for this reason."""
    told = {"order": 1, "reason": reason, "at": at(-2), "deadline": at(98), "kind": kind}
    given_job = job(status(attempt(1, AttemptState.DRAINING, fenced=True, first_step=500, drain=told)))
    decision = settled(snapshot(given_job, ended(1, 0, verdict("drained", "SavedAndLeft"))))
    return given_job.status, decision.status


@pytest.mark.parametrize("kind", [EndKind.INTERRUPTION, EndKind.STOPPED])
def test_an_attempt_that_was_ordered_to_leave_counts_with_that_reason(kind):
    before, after = after_end("KeepingDeadline", kind)
    assert node_exits(before, after) == (NodeExit("Spot", "KeepingDeadline"),)
    assert node_exits(after, after) == ()


@pytest.mark.parametrize(
    "message", [verdict("completed", "Exited"), verdict("failed", "Exception"), verdict("misconfigured", "NoBucket")]
)
def test_an_attempt_that_ended_on_its_own_does_not_count(message):
    given_job = job(status(attempt(1, fenced=True, first_step=500)))
    after = settled(snapshot(given_job, ended(1, 1, message))).status
    assert after.ledger.attempts == 1
    assert node_exits(given_job.status, after) == ()


def test_an_attempt_without_a_node_does_not_count():
    waiting = attempt(2, AttemptState.ACQUIRING, acquire_deadline=at(-1))
    ledger = Ledger(attempts=1, by_tier=(TierTotals(tier="spot", kind="Spot", attempts=1),))
    before = status(waiting, history=(record(1),), ledger=ledger)
    after = settled(snapshot(job(before), pending(2))).status
    assert (after.history[-1].reason, after.current.tier.name) == ("AcquireTimeout", "dedicated")
    assert node_exits(before, after) == ()


def test_the_kind_is_that_of_the_tier_that_was_left():
    before = status(attempt(4, tier=tier("cpu"), fenced=True, first_step=500), history=(record(3),))
    after = settled(snapshot(job(before), ended(4, 137, deleted_at=at(-1)))).status
    assert node_exits(before, after) == (NodeExit("CPU", "PodDeleted"),)


# Breaks if one patch that ends both attempts counts one of them.
def test_two_ends_in_one_patch_are_two():
    ledger = status().ledger.model_copy(update={"attempts": 2, "by_tier": (TierTotals(tier="spot", kind="Spot"),)})
    after = status(history=(record(1), record(2, kind=EndKind.STOPPED, reason="NotNeeded")), ledger=ledger)
    assert node_exits(status(), after) == (NodeExit("Spot", "NodeGone"), NodeExit("Spot", "NotNeeded"))


# Breaks if a program's or kubelet's own text becomes a label: the number of series would be unlimited.
@given(st.text(max_size=128))
def test_reasons_are_of_a_closed_set(reason):
    assert known_reason(reason) in REASONS
    assert len(REASONS) < 72


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("SpotInterruption", "SpotInterruption"),
        ("EvictionByEvictionAPI", "EvictionByEvictionAPI"),
        ("OutOfnvidia.com/gpu", "OutOfResource"),
        ("x" * 64, OTHER),
        ("", OTHER),
    ],
)
def test_reasons_of_others(said, counted):
    assert known_reason(said) == counted


@pytest.mark.parametrize("reason", EndReason)
def test_every_reason_of_our_own_is_known(reason):
    assert (known_reason(reason) == reason) is (reason not in NO_EXIT)


# Breaks if core ends attempts for a reason that is not in EndReason, and so is counted as Other.
def test_no_reason_is_written_as_a_literal():
    calls = [
        node
        for path in Path(core.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("End", "drain")
    ]
    assert len(calls) > 20
    reasons = [arg for call in calls for arg in call.args[:2] if isinstance(arg, ast.Constant)]
    assert [arg.value for arg in reasons if str(arg.value).isalnum()] == []


# Breaks if a recovery is seen at every decision, or not at all.
def test_a_recovery_is_new_in_the_patch_that_settles_it():
    before = status(
        attempt(2, scheduled_at=at(-40), started_at=at(-30)),
        history=(record(1, last_step=500, last_step_at=at(-100), ended_at=at(-90)),),
    )
    view = (pod(2),)
    first = settled(snapshot(job(before), *view, reports=[stepped(2, first_step_at=at(-10), resumed_step=500)])).status
    (told,) = new_recoveries(before, first)
    parts = (told.notice, told.acquire, told.start, told.restore)
    assert [part.total_seconds() for part in parts] == [10, 50, 10, 20]
    later = [stepped(2, step=900, first_step_at=at(-10), resumed_step=500, received_at=at(60))]
    second = settled(snapshot(stored(job(before), first), *view, reports=later, now=at(60))).status
    assert second.progress.step == 900
    assert new_recoveries(first, second) == ()


# Breaks if a record that leaves history is forgotten or counts twice.
def test_a_dropped_record_is_not_counted_again():
    settled_one = record(1, recovery=Recovery(notice=timedelta(seconds=3)), steps_lost=0)
    assert new_recoveries(status(), status(history=(settled_one,))) == (settled_one.recovery,)
    assert new_recoveries(status(history=(settled_one,)), status(history=(record(2),))) == ()


# Breaks if steps that nobody counted are observed as none.
def test_a_recovery_whose_repeated_steps_are_not_known_is_left_out():
    unknown = record(1, recovery=Recovery(notice=timedelta(seconds=3)))
    assert new_recoveries(status(), status(history=(unknown,))) == ()
