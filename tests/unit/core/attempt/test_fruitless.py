"""Attempts in a row without progress end the job; what progress is depends on what the program tells."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    container,
    drain,
    ended,
    job,
    node,
    nodes,
    pod,
    report,
    settled,
    silent,
    snapshot,
    status,
    stepped,
    stopped,
    tier,
    verdict,
)
from tests.support.decisions.tier_views import known

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind, PodRecord
from holdfast.api.status import Phase
from holdfast.core.capacity.knowledge import find
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.report import SavedCheckpoint

GONE, HERE = nodes(without=("n1",)), nodes()
KILLED = ended(1, 137)
RESUMED = attempt(fenced=True, first_step=501, resumed_step=500)
PLAIN = attempt(started_at=at(-500))


def saved(step):
    return SavedCheckpoint(step, "s3://runs/vision/vit/manifests/1.json", 9, at(-60), at(2) - at(0))


def lost(current, *pods, before=7, reports=(), cluster=HERE, **fields):
    """The status after the attempt is lost, by default because something killed it on a node that is still there."""
    given_job = job(status(current, fruitless_attempts=before, **fields.pop("status", {})), **fields)
    return settled(snapshot(given_job, *(pods or (KILLED,)), cluster=cluster, reports=reports)).status


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


def test_a_checkpoint_reported_to_an_earlier_operator_counts_only_if_this_attempt_made_it():
    def told(seconds):
        return {"checkpoint": {"step": 800, "uri": "s3://b/p", "committed_at": at(seconds)}}

    assert lost(RESUMED, status=told(-100)).fruitless_attempts == 0
    assert lost(RESUMED, status=told(-3000)).fruitless_attempts == 8


def test_a_program_that_takes_the_fence_and_dies_before_a_step_makes_no_progress():
    assert lost(attempt(fenced=True)).fruitless_attempts == 8
    assert lost(PLAIN, status={"fenced_program": "known"}).fruitless_attempts == 8


def test_a_program_that_only_reports_its_steps_makes_progress_with_the_first():
    assert lost(attempt(first_step=1), status={}).fruitless_attempts == 0


@pytest.mark.parametrize(("ran", "count"), [(299, 8), (301, 0)])
def test_a_program_that_reports_nothing_makes_progress_by_running_for_five_minutes(ran, count):
    killed = container(started_at=at(-ran), ended=True, ended_at=at(0), exit_code=137)
    assert lost(attempt(started_at=at(-ran)), pod(phase="Failed", trainer=killed)).fruitless_attempts == count


# Breaks if a program that reports no steps is said to get no further, although its checkpoints are saved.
@pytest.mark.parametrize(("commit", "count"), [(replace(saved(0), step=None), 0), (None, 8)])
def test_a_program_without_steps_makes_progress_with_a_checkpoint(commit, count):
    killed = container(started_at=at(-100), ended=True, ended_at=at(0), exit_code=137)
    told = report(senders=("Folder",), fenced=False, checkpoint=commit)
    gone = pod(phase="Failed", trainer=killed)
    assert lost(attempt(started_at=at(-100)), gone, reports=[told]).fruitless_attempts == count


def test_waiting_for_a_node_never_counts():
    waits = attempt(state=AttemptState.ACQUIRING, acquire_deadline=at(0))
    assert lost(waits, pod(node=None, phase="Pending", trainer=None), before=19).fruitless_attempts == 19


# Whose fault it is

DEDICATED = attempt(fenced=True, first_step=501, resumed_step=500, tier=tier("dedicated"))
ON_DEDICATED = tuple(node(name, labels={"tier": "dedicated"}) for name in ("n1", "n2"))
NO_DEDICATED = ClusterView([ON_DEDICATED[1]])
NAMED = PodRecord(uid="u-1", node="n1", node_uid="u-n1")  # who chose this node is not known
UNGRANTED = attempt(fenced=True, first_step=501, resumed_step=500, pods=(NAMED,))


def draining(reason, **changes):
    return attempt(
        state=AttemptState.DRAINING,
        fenced=True,
        first_step=501,
        resumed_step=500,
        drain=drain(reason=reason),
        **changes,
    )


@pytest.mark.parametrize(
    ("current", "seen", "cluster", "of_job", "of_tier"),
    [
        # The platform took the node back: only the tier is to blame.
        (RESUMED, pod(), GONE, 0, 1),
        (draining("SpotInterruption"), ended(), HERE, 0, 1),
        (draining("ScheduledMaintenance", tier=tier("dedicated")), ended(), ClusterView(ON_DEDICATED), 0, 1),
        # The program may have brought the node down.
        (RESUMED, pod(), nodes(silent("n1", 100)), 1, 1),
        (DEDICATED, pod(), NO_DEDICATED, 1, 1),
        (RESUMED, ended(1, 137), HERE, 1, 1),
        # The tier has no part in it, as far as is known.
        (UNGRANTED, pod(), GONE, 1, 0),
        (RESUMED, ended(1, 1, verdict("failed", "StorageUnreachable")), HERE, 1, 0),
        (RESUMED, ended(1, 1, verdict("fenced")), HERE, 1, 0),
        (RESUMED, ended(1, 1, verdict("failed", "UserException")), HERE, 1, 0),
        (RESUMED, ended(deleted_at=at(20)), HERE, 1, 0),
        (attempt(state=AttemptState.DRAINING, fenced=True, drain=stopped()), ended(), HERE, 0, 0),
    ],
)
def test_a_fruitless_attempt_counts_for_the_job_or_for_the_tier(current, seen, cluster, of_job, of_tier):
    """Breaks if a storm of Spot interruptions ends a job, or if a program that brings nodes down is never stopped."""
    after = lost(current, seen, cluster=cluster)
    seen_of_tier = find(after.tiers, current.tier.name)
    assert (after.fruitless_attempts - 7, (seen_of_tier.fruitless if seen_of_tier else None) or 0) == (of_job, of_tier)
    assert after.history[-1].fruitless is bool(of_job)


def fruitless_on(count, seconds=None, name="spot"):
    return known(name, fruitless=count, rests_until=None if seconds is None else at(seconds))


@pytest.mark.parametrize(
    ("before", "minutes"), [(0, None), (1, None), (2, 10), (3, 20), (4, 40), (5, 80), (6, 120), (400, 120)]
)
def test_a_tier_rests_longer_after_each_fruitless_attempt(before, minutes):
    after = find(lost(RESUMED, pod(), cluster=GONE, status={"tiers": (fruitless_on(before),)}).tiers, "spot")
    assert after.fruitless == before + 1
    assert after.rests_until == (None if minutes is None else at(minutes * 60))


def test_progress_ends_the_rest():
    saved_more = {"reports": [stepped(step=900, checkpoint=saved(501))]}
    after = lost(
        RESUMED,
        pod(),
        cluster=GONE,
        status={"tiers": (fruitless_on(5, 3000), fruitless_on(3, 500, "dedicated"))},
        **saved_more,
    )
    assert [(one.tier, one.fruitless, one.rests_until) for one in after.tiers] == [
        ("spot", None, None), ("dedicated", 3, at(500)),
    ]  # fmt: skip


# The end


def record(number, reason="NodeGone"):
    return AttemptRecord(
        number=number, tier="spot", node="n9", kind=EndKind.INTERRUPTION, reason=reason, raised_at=at(-90),
        ended_at=at(-50), fruitless=True,
    )  # fmt: skip


def test_the_limit_ends_the_job_with_the_evidence():
    history = tuple(record(number, "Killed" if number % 3 else "StartTimeout") for number in range(1, 20))
    runs = attempt(20, fenced=True, first_step=501, resumed_step=500)
    after = lost(runs, ended(20, 137), before=19, status={"history": history, "attempt": 20})
    assert (after.phase, after.reason) == (Phase.FAILED, "TooManyFruitlessAttempts")
    text = after.decision.message
    assert "20 attempts in a row made no progress (spec.failure.maxFruitless: 20)" in text
    assert "14 x Killed, 6 x StartTimeout" in text
    assert "the last: attempt 20 on n1: Killed: exit code 137: killed from outside" in text
    assert (after.current, after.successor, after.restarts.interruptions) == (None, None, 1)


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


def test_a_resumed_job_begins_the_counts_again():
    given = job(status(suspended_at=at(-9), fruitless_attempts=19, tiers=(fruitless_on(5, 3000),)))
    resumed = settled(snapshot(given)).status
    assert (resumed.fruitless_attempts, resumed.tiers) == (0, (known("spot"),))
    assert resumed.current.tier.name == "spot"


def test_interruptions_with_progress_never_end_a_job():
    current = lost(RESUMED, before=0, reports=[stepped(step=900, checkpoint=saved(800))])
    assert current.restarts.interruptions == 1
    assert current.phase is not Phase.FAILED
