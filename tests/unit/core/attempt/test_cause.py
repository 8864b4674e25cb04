"""Which end of several is the cause of all, and what peers say when another program has ended."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import at, attempt, container, drain, job, pod, snapshot, status, verdict
from tests.unit.core.table.gang_cases import START, TRAINS, given, member, says

from holdfast.api.attempt import EndKind
from holdfast.core.attempt import cause
from holdfast.core.attempt.cause import find_cause, is_of_peer
from holdfast.core.attempt.why_ended import End
from holdfast.core.draft import Draft
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.pods import ContainerView
from holdfast.core.observe.verdict import parse_verdict
from holdfast.core.turn import take_turn
from holdfast_protocol.verdict import WRITER_SECONDS

A_RANK_SAYS = verdict("failed", "UserException", message="ValueError: bad batch", peer=False)
NO_RANK_SAYS = verdict("failed", "UserException", message="ChildFailedError: train.py FAILED")
MEMBERS = [
    ("a rank says why", {0: A_RANK_SAYS}, {}, ("Failure", "UserException", 0)),
    ("no rank says why, lately", {0: NO_RANK_SAYS}, {}, None),
    ("no rank says why, on both nodes", {0: NO_RANK_SAYS, 1: NO_RANK_SAYS}, {}, ("Failure", "UserException", 0)),
    ("the cluster took a pod", {0: NO_RANK_SAYS},
     {1: {"phase": "Failed", "reason": "Preempting", "trainer": container(ended=True, exit_code=137)}},
     ("Interruption", "Preempting", 1)),
    ("a node evicted a pod", {0: NO_RANK_SAYS},
     {1: {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}},
     ("Interruption", "Evicted", 1)),
    ("memory ran out", {0: NO_RANK_SAYS},
     {1: {"phase": "Failed", "trainer": replace(container(ended=True, exit_code=137), reason="OOMKilled")}},
     ("Failure", "OutOfMemory", 1)),
    ("the cluster took a pod, and a rank says why another failed", {0: A_RANK_SAYS},
     {1: {"phase": "Failed", "reason": "Preempting"}}, ("Failure", "UserException", 0)),
    ("a program that was told to end", {0: verdict("failed", "Regrouped"), 1: NO_RANK_SAYS}, {},
     ("Failure", "UserException", 1)),
]  # fmt: skip


@pytest.mark.parametrize(("told", "pods", "expected"), [one[1:] for one in MEMBERS], ids=[one[0] for one in MEMBERS])
def test_what_the_cluster_did_explains_more_than_a_failure_without_the_word_of_a_rank(told, pods, expected):
    """Breaks if an eviction on one node counts as a failure of the program on another one."""
    views = [member(1, rank, **pods.get(rank, {})) for rank in (0, 1)]
    reports = {
        view.uid: LauncherView(1, ready=view.rank in told, received_at=at(-1),
                               verdict=parse_verdict(told.get(view.rank, "")), ended_at=at(-1))
        for view in views
    }  # fmt: skip
    found = find_cause(take_turn(Draft(given(TRAINS, *views, members=reports))))
    assert (found and (found.end.kind.value, found.end.reason, found.rank)) == expected


BROKEN = ContainerView("holdfast-init", ended=True, exit_code=3, message="Segmentation fault", ended_at=at(-60))
ABORTED = replace(container(ended=True, exit_code=1), message="ConnectionResetError: Connection reset by peer")
TIMES = [
    ("an init container crashed", START, {"init": (BROKEN,), "trainer": container(waiting="PodInitializing")},
     ("Failure", "ExitCode")),
    ("and its kubelet does not say when", START,
     {"init": (replace(BROKEN, ended_at=None),), "trainer": container(waiting="PodInitializing")},
     ("Failure", "ExitCode")),
    ("the clock of a node is an hour ahead", TRAINS,
     {"trainer": replace(container(ended=True, exit_code=3), ended_at=at(3600))}, ("Failure", "ExitCode")),
    ("the error of a peer, by such a clock", TRAINS, {"trainer": replace(ABORTED, ended_at=at(3600))},
     ("Interruption", "ConnectionLost")),
]  # fmt: skip


@pytest.mark.parametrize(("current", "changes", "expected"), [one[1:] for one in TIMES], ids=[one[0] for one in TIMES])
def test_an_end_of_unknown_time_is_not_waited_for_without_end(current, changes, expected):
    """Breaks if an attempt whose pod has ended stays as it is because the other launchers have nothing to tell."""
    alive, dead = member(1, 0), member(1, 1, phase="Failed", **changes)
    found = find_cause(take_turn(Draft(given(current, alive, dead, members=says(alive)))))
    assert (found and (found.end.kind.value, found.end.reason)) == expected


def test_errors_of_peers_wait_longer_than_a_launcher_waits_for_a_checkpoint():
    """Breaks if the launcher that failed first tells it only after the errors of its peers have decided."""
    assert cause.PATIENCE.total_seconds() > WRITER_SECONDS + 10


def test_the_words_of_a_failure_say_that_a_peer_was_gone():
    assert is_of_peer(End(EndKind.FAILURE, "UserException", "Connection reset by peer"))
    assert not is_of_peer(End(EndKind.FAILURE, "UserException", "ValueError: bad batch"))


def test_an_interruption_is_its_own_cause():
    assert not is_of_peer(End(EndKind.INTERRUPTION, "SavedAndLeft", "Connection reset by peer"))


def test_what_the_launcher_says_of_its_ranks_wins_over_words_in_the_log():
    words = "ValueError: this batch is bad\nConnection reset by peer"
    assert not is_of_peer(End(EndKind.FAILURE, "UserException", words, peer=False))
    assert is_of_peer(End(EndKind.FAILURE, "UserException", "cannot tell", peer=True))


LEFT = container(ended=True, exit_code=0, message=verdict("drained", "SavedAndLeft", step=41))
KILLED = container(ended=True, exit_code=137)
OVER_ITS_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 40Mi."
SIGNALS = [
    ("a signal of nobody, just now", 1, {"trainer": LEFT}, None),
    ("and two seconds ago", 3, {"trainer": LEFT}, ("Interruption", "SavedAndLeft")),
    ("the kubelet says more", 1, {"trainer": LEFT, "phase": "Failed", "reason": "Evicted", "message": OVER_ITS_LIMIT},
     ("Failure", "Evicted")),
    ("the kubelet says no more", 1, {"trainer": LEFT, "phase": "Succeeded"}, ("Interruption", "SavedAndLeft")),
    ("a kill of nobody, just now", 1, {"trainer": KILLED}, None),
    ("and two seconds ago", 3, {"trainer": KILLED}, ("Interruption", "Killed")),
    ("a container beside it runs on", 1, {"trainer": LEFT, "others_run": True}, ("Interruption", "SavedAndLeft")),
    ("a person deleted the pod", 1, {"trainer": LEFT, "deleted_at": at(20)}, ("Interruption", "PodDeleted")),
    ("the cluster took the pod", 1, {"trainer": LEFT, "disruption": "PreemptionByScheduler"},
     ("Interruption", "PreemptionByScheduler")),
    ("the runtime lost the container", 1, {"trainer": container(ended=True, exit_code=255)},
     ("Interruption", "ContainerLost")),
    ("the program failed", 1, {"trainer": container(ended=True, exit_code=3)}, ("Failure", "ExitCode")),
]  # fmt: skip


@pytest.mark.parametrize(("ago", "changes", "expected"), [one[1:] for one in SIGNALS], ids=[one[0] for one in SIGNALS])
def test_a_signal_of_nobody_waits_for_what_the_kubelet_says_of_it(ago, changes, expected):
    """Breaks if a program that fills the disk of each node counts as interrupted: it would go on for ever."""
    trainer = replace(changes["trainer"], ended_at=at(-ago))
    seen = pod(**{**changes, "trainer": trainer})
    found = find_cause(take_turn(Draft(snapshot(job(status(attempt())), seen))))
    assert (found and (found.end.kind.value, found.end.reason)) == expected


def test_a_signal_that_holdfast_sent_is_explained():
    """Breaks if each move costs the time that a kubelet takes to say nothing."""
    seen = pod(trainer=replace(LEFT, ended_at=at(0)))
    found = find_cause(take_turn(Draft(snapshot(job(status(attempt(drain=drain()))), seen))))
    assert found is not None


def test_a_signal_of_nobody_on_one_of_several_nodes_waits_too():
    """Breaks if a training on several nodes counts as interrupted where one on a single node does not."""
    alive = member(1, 0)
    ended = {"trainer": replace(LEFT, ended_at=at(-1))}
    found = find_cause(take_turn(Draft(given(TRAINS, alive, member(1, 1, **ended), members=says(alive)))))
    assert found is None
    final = {**ended, "phase": "Failed", "reason": "Evicted", "message": OVER_ITS_LIMIT}
    found = find_cause(take_turn(Draft(given(TRAINS, alive, member(1, 1, **final), members=says(alive)))))
    assert found is not None
    assert found.end.kind is EndKind.FAILURE
