"""What is seen of a job, in one word, and which pods may still be computing."""

from dataclasses import replace

import pytest
from tests.support.decisions.snapshots import (
    at,
    attempt,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    silent,
    snapshot,
    status,
)

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind, PodRecord
from holdfast.core.observe.look import look
from holdfast.core.observe.situation import Sight, is_live

A = AttemptState
OTHER_NODE = nodes(node("n1", uid="u-other"))
UNSEEN = attempt(pods=(PodRecord(uid="u-1", node="n1"),))

SIGHTS = [
    ("no attempt", None, (), nodes(), Sight.NOTHING),
    ("intended", attempt(state=A.INTENDED), (pod(),), nodes(), Sight.NOTHING),
    ("absent", attempt(state=A.ACQUIRING), (pod(2),), nodes(), Sight.ABSENT),
    ("vanished", attempt(), (), nodes(), Sight.VANISHED),
    ("pending", attempt(state=A.ACQUIRING), (pending(),), nodes(), Sight.PENDING),
    ("placed", attempt(state=A.STARTING), (placed(),), nodes(), Sight.PLACED),
    ("running", attempt(), (pod(),), nodes(), Sight.RUNNING),
    ("ended", attempt(), (ended(),), nodes(), Sight.ENDED),
    ("ended on a node that is gone", attempt(), (ended(),), nodes(without=("n1",)), Sight.ENDED),
    ("node silent", attempt(), (pod(),), nodes(silent()), Sight.SILENT),
    ("node gone", attempt(), (pod(),), nodes(without=("n1",)), Sight.NODE_GONE),
    ("registered again, and the pod runs on", attempt(), (pod(),), OTHER_NODE, Sight.RUNNING),
    ("registered again, and silent", attempt(), (pod(),), nodes(replace(silent(), uid="u-other")), Sight.SILENT),
    ("registered again, and the pod has ended", attempt(), (ended(1, 255),), OTHER_NODE, Sight.ENDED),
    ("registered again, and the pod is gone", attempt(), (), OTHER_NODE, Sight.VANISHED),
    ("node never seen", UNSEEN, (pod(),), nodes(without=("n1",)), Sight.RUNNING),
]


@pytest.mark.parametrize(("current", "pods", "cluster", "sight"), [s[1:] for s in SIGHTS], ids=[s[0] for s in SIGHTS])
def test_sight(current, pods, cluster, sight):
    given = snapshot(job(), *pods, cluster=cluster)
    assert look(given, current).sight is sight


def test_a_pod_of_this_very_decision():
    acquiring = attempt(state=A.ACQUIRING)
    assert look(snapshot(job()), acquiring, frozenset({1})).sight is Sight.CREATED


def record(number, *, estimated, uid=None):
    return AttemptRecord(
        number=number, tier="spot", kind=EndKind.INTERRUPTION, reason="NodeGone", raised_at=at(-9), ended_at=at(-5),
        estimated=estimated, pod_uid=uid,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("view", "changes", "live"),
    [
        (pod(), {}, True),
        (pending(), {}, True),
        (pod(deleted_at=at(-900)), {}, True),
        (pending(deleted_at=at(0)), {}, False),
        (ended(), {}, False),
        (pod(), {"history": (record(1, estimated=True),)}, False),
        (pod(), {"history": (record(1, estimated=True, uid="u-1"),)}, False),
        (pod(), {"history": (record(1, estimated=True, uid="u-0"),)}, True),  # made again under its name
        (pod(), {"history": (record(1, estimated=False),)}, True),
        (pod(2), {"history": (record(1, estimated=True),)}, True),
        (pod(), {"ledger": {"folded_through": 1}}, False),
        # Pods of several nodes: a later attempt may have taken them over.
        (pod(outlives=True), {"ledger": {"folded_through": 30}}, True),
        (pod(outlives=True), {"history": (record(1, estimated=True),)}, True),  # the end of another rank
        (pod(outlives=True), {"history": (record(1, estimated=True, uid="u-9"),)}, True),
        (pod(outlives=True), {"history": (record(7, estimated=True, uid="u-1"),)}, False),
        (ended(outlives=True), {}, False),
    ],
)
def test_which_pods_may_be_computing(view, changes, live):
    assert is_live(status(**changes), view) is live
