"""Attempts in a row without progress end the job; what progress is depends on what the program tells."""

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    container,
    ended,
    job,
    nodes,
    pod,
    settled,
    snapshot,
    status,
    stepped,
    verdict,
)

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast.api.status import Phase
from holdfast.core.observe.report import SavedCheckpoint

GONE = nodes(without=("n1",))
RESUMED = attempt(fenced=True, first_step=501, resumed_step=500)
PLAIN = attempt(started_at=at(-500))


def saved(step):
    return SavedCheckpoint(step, "s3://runs/vision/vit/manifests/1.json", 9, at(-60), at(2) - at(0))


def lost(current, *pods, before=7, reports=(), cluster=GONE, **fields):
    """The status after the attempt is lost with its node."""
    given_job = job(status(current, fruitless_attempts=before, **fields.pop("status", {})), **fields)
    return settled(snapshot(given_job, *(pods or (pod(),)), cluster=cluster, reports=reports)).status


# What counts as progress


def test_steps_that_were_not_saved_are_not_progress():
    assert lost(RESUMED, reports=[stepped(step=900)]).fruitless_attempts == 8
    assert lost(RESUMED, reports=[stepped(step=900, checkpoint=saved(500))]).fruitless_attempts == 8


def test_a_newer_checkpoint_is_progress():
    assert lost(RESUMED, reports=[stepped(step=900, checkpoint=saved(501))]).fruitless_attempts == 0


def test_a_first_checkpoint_of_a_job_that_began_at_the_beginning_is_progress():
    begun = attempt(fenced=True, first_step=1)
    assert lost(begun, reports=[stepped(step=90, first_step=1, checkpoint=saved(80))]).fruitless_attempts == 0
    assert lost(begun, reports=[stepped(step=90, first_step=1)]).fruitless_attempts == 8


@pytest.mark.parametrize(
    ("message", "count"),
    [
        (verdict("drained", "SavedAndLeft", step=501, savedStep=501), 0),
        (verdict("drained", "LeftWithoutSaving", step=900, savedStep=500), 8),
        (verdict("failed", "UserException", step=900, savedStep=800), 0),
    ],
)
def test_the_launcher_says_what_was_saved_while_no_operator_listened(message, count):
    assert lost(RESUMED, ended(1, 1, message), cluster=nodes()).fruitless_attempts == count


def test_a_checkpoint_that_an_earlier_operator_was_told_of_counts_only_if_this_attempt_made_it():
    def told(seconds):
        return {"checkpoint": {"step": 800, "uri": "s3://b/p", "committed_at": at(seconds)}}

    assert lost(RESUMED, status=told(-100)).fruitless_attempts == 0
    assert lost(RESUMED, status=told(-3000)).fruitless_attempts == 8


def test_a_program_that_takes_the_fence_and_dies_before_a_step_makes_no_progress():
    assert lost(attempt(fenced=True)).fruitless_attempts == 8
    assert lost(PLAIN, status={"library": True}).fruitless_attempts == 8


def test_a_program_that_only_reports_its_steps_makes_progress_with_the_first():
    assert lost(attempt(first_step=1), status={}).fruitless_attempts == 0


@pytest.mark.parametrize(("ran", "count"), [(299, 8), (301, 0)])
def test_a_program_that_reports_nothing_makes_progress_by_running_for_five_minutes(ran, count):
    started = container(started_at=at(-ran))
    assert lost(attempt(started_at=at(-ran)), pod(trainer=started)).fruitless_attempts == count


def test_waiting_for_a_node_never_counts():
    from holdfast.api.attempt import AttemptState

    waits = attempt(state=AttemptState.ACQUIRING, acquire_deadline=at(0))
    assert lost(waits, pod(node=None, phase="Pending", trainer=None), before=19).fruitless_attempts == 19


# The end


def record(number, reason="NodeGone"):
    return AttemptRecord(
        number=number, tier="spot", node="n9", kind=EndKind.LOSS, reason=reason, raised_at=at(-90), ended_at=at(-50)
    )


def test_the_limit_ends_the_job_with_the_evidence():
    history = tuple(record(number, "NodeGone" if number % 3 else "StartTimeout") for number in range(1, 20))
    runs = attempt(20, fenced=True, first_step=501, resumed_step=500)
    after = lost(runs, pod(20), before=19, status={"history": history, "attempt": 20})
    assert (after.phase, after.reason) == (Phase.FAILED, "TooManyFruitlessAttempts")
    text = after.decision.reason
    assert "20 attempts in a row made no progress (spec.failure.maxFruitless: 20)" in text
    assert "14 x NodeGone, 6 x StartTimeout" in text
    assert "the last: attempt 20 on n1: NodeGone: node n1 is gone" in text
    assert (after.current, after.successor, after.restarts.losses) == (None, None, 1)


def test_a_failure_without_progress_counts_too():
    """A program that fails once a day never has three failures within the window."""
    failed = ended(1, 1, verdict("failed", "UserException"))
    after = lost(RESUMED, failed, before=19, cluster=nodes())
    assert (after.phase, after.reason) == (Phase.FAILED, "TooManyFruitlessAttempts")
    assert after.restarts.failures == 1


def test_the_user_sets_the_limit():
    assert lost(RESUMED, before=1, failure={"maxFruitless": 2}).phase is Phase.FAILED
    assert lost(RESUMED, before=19, failure={"maxFruitless": 21}).phase is not Phase.FAILED


def test_an_attempt_that_completes_or_moves_is_never_too_many():
    done = ended(1, 0, verdict("completed", "Exited"))
    assert lost(RESUMED, done, before=19, cluster=nodes()).phase is Phase.COMPLETED


def test_a_resumed_job_begins_the_count_again():
    given = job(status(suspended_at=at(-9), fruitless_attempts=19))
    assert settled(snapshot(given)).status.fruitless_attempts == 0


def test_losses_with_progress_never_end_a_job():
    current = lost(RESUMED, before=0, reports=[stepped(step=900, checkpoint=saved(800))])
    assert current.restarts.losses == 1
    assert current.phase is not Phase.FAILED
