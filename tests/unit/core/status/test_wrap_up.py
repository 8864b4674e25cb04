"""Unwanted pods, pods kept for logs, phase and reason, time to live."""

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    created,
    deleted,
    drain,
    ended,
    job,
    nodes,
    pending,
    placed,
    pod,
    released,
    settled,
    silent,
    snapshot,
    status,
    stored,
)

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind
from holdfast.api.status import Phase
from holdfast.core.decision import DeleteJob, HoldPod, UnprotectPod

FINAL = {"phase": Phase.COMPLETED, "finished_at": at(-60), "attempt": 9}


def record(number, **changes):
    fields = {
        "tier": "spot",
        "kind": EndKind.INTERRUPTION,
        "reason": "NodeGone",
        "raised_at": at(-900),
        "ended_at": at(-60),
    }
    return AttemptRecord(**{"number": number, **fields, **changes})


def running(**changes):
    return job(status(attempt(5, fenced=True, first_step=1), **changes))


def test_the_last_two_ended_pods_are_kept_for_their_logs():
    decision = settled(snapshot(running(), ended(1), ended(2, 1), ended(4), pod(5)))
    assert deleted(decision) == [("u-1", None)]
    assert released(decision) == ["u-1", "u-2", "u-4"]


def test_a_pod_is_kept_for_its_log_before_its_kubelet_gives_the_final_phase():
    """Breaks if `kubectl logs` finds nothing: a real kubelet says first that the containers ended, in phase Running."""
    done = job(status(attempt(5)))
    decision = settled(snapshot(done, ended(5, 1, phase="Running", finalized=False)))
    assert decision.status.history[-1].number == 5
    assert deleted(decision) == []


def test_a_pod_in_which_a_container_of_another_maker_runs_is_not_kept():
    """Breaks if an injected sidecar that never ends holds a node that is paid for."""
    decision = settled(snapshot(running(), ended(4, phase="Running", others_run=True), pod(5)))
    assert deleted(decision) == [("u-4", None)]


def test_few_of_many_ranks_are_kept_for_their_logs():
    """Breaks if a training on 1,024 nodes leaves 1,024 pods, or if the one that its end is about is not kept."""
    pods = [ended(9, uid=f"u-{rank}", name=f"vit-9-{rank}", rank=rank, finalized=False) for rank in range(1024)]
    given = job(status(**FINAL, history=(record(8, rank=900), record(9, rank=700))))
    gone = {uid for uid, _ in deleted(settled(snapshot(given, *pods)))}
    assert {f"u-{rank}" for rank in range(1024)} - gone == {f"u-{rank}" for rank in (700, *range(7))}


def test_the_newest_pod_of_each_of_few_ranks_is_kept():
    pods = [
        ended(number, uid=f"u-{number}-{rank}", name=f"vit-{number}-{rank}", rank=rank, finalized=False)
        for number, rank in ((1, 0), (1, 1), (2, 1), (1, 2))
    ]
    assert deleted(settled(snapshot(job(status(**FINAL)), *pods))) == [("u-1-1", None)]


def test_numbers_without_a_pod_on_a_node_push_no_log_out():
    """A walk over three tiers raises three numbers; the failure's log must outlive it."""
    waiting = job(status(attempt(9, AttemptState.ACQUIRING)))
    assert deleted(settled(snapshot(waiting, ended(5, 1, finalized=False), pending(9)))) == []


def test_a_live_pod_of_an_earlier_attempt_is_deleted_and_released_only_when_it_ended():
    decision = settled(snapshot(running(), pod(3), pod(5)))
    assert (deleted(decision), released(decision)) == ([("u-3", None)], [])


def test_a_lost_pod_is_released_although_its_end_was_not_seen():
    given = running(history=(record(3, estimated=True),))
    decision = settled(snapshot(given, pod(3, deleted_at=at(-9)), pod(5)))
    assert (deleted(decision), released(decision)) == ([], ["u-3"])


def test_a_pending_pod_that_is_being_deleted_is_released():
    assert released(settled(snapshot(running(), pending(4, deleted_at=at(0)), pod(5)))) == ["u-4"]


def test_nothing_is_done_twice():
    quiet = snapshot(running(), ended(4, finalized=False), pod(5))
    assert settled(quiet).actions == ()


@pytest.mark.parametrize("current", [5, None])
def test_a_pod_of_a_later_attempt_means_that_this_view_is_old(current):
    """Deleting it would end an attempt of a newer decision that is not seen yet."""
    given = running() if current else job(status(attempt=5, suspended_at=at(-9)), suspend=True)
    decision = settled(snapshot(given, *((pod(5),) if current else ()), pod(6)))
    assert decision.actions == ()


def test_the_successors_pod_is_not_touched_from_a_stale_view():
    leaving = job(status(attempt(5, AttemptState.DRAINING, drain=drain()), successor=attempt(6, AttemptState.INTENDED)))
    assert deleted(settled(snapshot(leaving, pod(5, protected=False), pod(6)))) == []


def test_a_lost_status_raises_the_number_above_every_pod():
    decision = settled(snapshot(job(), ended(7, finalized=False)))
    assert created(decision) == [8]


def test_a_draining_pod_is_unprotected_once():
    leaving = job(status(attempt(5, AttemptState.DRAINING, drain=drain())))
    assert settled(snapshot(leaving, pod(5))).actions == (UnprotectPod("vit-5-0", "u-5"),)
    assert settled(snapshot(leaving, pod(5, protected=False))).actions == ()


def test_a_final_job_still_ends_and_releases_its_pods():
    decision = settled(snapshot(job(status(**FINAL)), pod(8), ended(9)))
    assert (deleted(decision), released(decision)) == ([("u-8", None)], ["u-9"])


def test_final_is_final():
    """No observation, edit or request changes a finished job's status."""
    given = job(
        status(**FINAL), suspend=True, meta={"generation": 4, "annotations": {"holdfast.dev/move-requested": "x"}}
    )
    decision = settled(snapshot(given, pod(9), ended(8, 1)))
    assert decision.status == given.status
    assert decision.trace == ()


def test_a_deleted_job_only_releases_its_pods():
    """Garbage collection deletes the pods; the finalizer must not keep them."""
    given = job(status(attempt(5)), meta={"deletionTimestamp": "2026-11-21T08:59:00Z"})
    decision = settled(snapshot(given, ended(4), pod(5)))
    assert (released(decision), deleted(decision), decision.trace) == (["u-4"], [], ())
    assert decision.status == given.status
    gone = settled(snapshot(given, ended(5, deleted_at=at(0))))
    assert released(gone) == ["u-5"]


@pytest.mark.parametrize(("ttl", "gone"), [("1m", True), ("0s", True), ("61s", False)])
def test_time_to_live(ttl, gone):
    decision = settled(snapshot(job(status(**FINAL), ttlAfterFinished=ttl)))
    assert (DeleteJob("u-job") in decision.actions) is gone
    assert decision.requeue_at == (None if gone else at(1))


def test_without_a_time_to_live_a_job_stays():
    decision = settled(snapshot(job(status(**FINAL))))
    assert (decision.actions, decision.requeue_at) == ((), None)


@pytest.mark.parametrize(
    ("current", "changes", "phase", "reason"),
    [
        (
            attempt(2, AttemptState.INTENDED, retry_at=at(9)),
            {"restarts": {"interruptions": 1}},
            "Recovering",
            "BackOff",
        ),
        (attempt(1, AttemptState.INTENDED, retry_at=at(9), refusals=1), {}, "Acquiring", "PodRefused"),
        (attempt(state=AttemptState.ACQUIRING), {}, "Acquiring", None),
    ],
)
def test_phase_and_reason(current, changes, phase, reason):
    pods = (pending(),) if current.state is AttemptState.ACQUIRING else ()
    after = settled(snapshot(job(status(current, **changes)), *pods)).status
    assert (after.phase, after.reason) == (phase, reason)


def test_after_the_delay_of_a_refused_pod_the_reason_is_what_the_job_waits_for():
    waits = attempt(2, AttemptState.INTENDED, retry_at=at(-1), refusals=1)
    after = settled(snapshot(job(status(waits)), pod(1, deleted_at=at(20)))).status
    assert after.reason == "WaitingForOldPod"
    assert after.next == "Attempt 2 starts when the previous attempt has ended."


def test_a_job_explains_why_its_pod_is_kept_in_an_outage():
    held = settled(snapshot(running(), pod(5), cluster=nodes(silent("n1"), silent("n2")))).status
    assert held.decision.action == "KeepPod"
    assert "together" in next(c.message for c in held.conditions if c.type == "Progressing")
    back = settled(snapshot(job(held), pod(5))).status
    assert (back.decision.action, back.decision.message) == ("Run", "node n1 answers again")


def test_columns():
    after = settled(snapshot(running(), pod(5))).status
    assert (after.tier, after.node, after.reason) == ("spot", "n1", None)


@pytest.mark.parametrize(
    ("of", "held"),
    [
        (pod(5, finalized=False), ["u-5"]),  # an uninstallation released it, and it still trains
        (pod(5), []),
        (pod(5, finalized=False, deleted_at=at(-1)), []),  # the API server adds no finalizer to it
        (pod(3, finalized=False), []),
    ],
)
def test_a_pod_that_trains_gets_its_finalizer_back(of, held):
    decision = settled(snapshot(running(), *({5: pod(5)} | {of.attempt: of}).values()))
    assert [action.uid for action in decision.actions if isinstance(action, HoldPod)] == held


def test_a_pod_with_a_number_that_no_attempt_can_have_is_released_and_changes_nothing():
    """It would be the newest attempt for ever, and no other pod could start beside it."""
    forged = pending(999_999_999, uid="u-forged")
    ends = snapshot(job(status(attempt(2, fenced=True, first_step=1))), forged, ended(2, 137))
    decision = settled(ends)
    assert (decision.status.attempt, created(decision)) == (3, [3])
    assert "u-forged" in released(decision)
    assert deleted(decision) == []


def test_a_job_that_begins_does_not_take_up_a_forged_pod():
    decision = settled(snapshot(job(), pending(999_999_999, uid="u-forged")))
    assert (decision.trace, created(decision), released(decision)) == (("first pod",), [1], [])


def test_a_status_that_was_lost_begins_above_the_numbers_of_its_pods():
    assert settled(snapshot(job(), ended(8_000))).status.attempt == 8_001


# Breaks if a metric says that a job has waited since its last write, or since its phase before.
def test_the_time_of_a_phase_is_that_of_its_beginning():
    since = at(-500)
    waiting = job(status(attempt(9, AttemptState.ACQUIRING), phase=Phase.ACQUIRING, phase_since=since))
    assert settled(snapshot(waiting, pending(9))).status.phase_since == since
    started = settled(snapshot(waiting, pod(9))).status
    assert (started.phase is Phase.ACQUIRING, started.phase_since) == (False, at(0))


@pytest.mark.parametrize(("later", "cost"), [(30, "0.1672"), (60, "0.1842"), (240, "0.2352")])
def test_the_cost_of_a_node_that_is_held_is_written_while_its_pod_does_not_start(later, cost):
    """Breaks if the cost stands still for the minutes of a pull of an image, and then jumps."""
    given = job(status(attempt(state=AttemptState.STARTING)))
    first = settled(snapshot(given, placed()))
    assert (str(first.status.ledger.spent), first.requeue_at) == ("0.1672", at(60))
    held = settled(snapshot(stored(given, first.status), placed(), now=at(later)))
    assert str(held.status.ledger.spent) == cost
