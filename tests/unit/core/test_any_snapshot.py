"""Whatever a job's status says and whatever is seen: a decision is made, and deciding again changes nothing."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.core import (
    TIERS,
    at,
    attempt,
    created,
    drain,
    ended,
    job,
    node,
    nodes,
    pending,
    placed,
    pod,
    settled,
    silent,
    snapshot,
    status,
    stepped,
    stopped,
    tier,
    verdict,
)

from holdfast.api import names
from holdfast.api.attempt import AttemptState, EndKind
from holdfast.core.snapshot import Refusal

SPOT_ITN = "aws-node-termination-handler/spot-itn"
TIMES = st.sampled_from((-9000, -100, -31, -6, -1, 0, 5, 200)).map(at)
MAYBE = st.none() | TIMES

drains = st.builds(
    drain,
    reason=st.sampled_from(("SpotInterruption", "NodeSilent", "Suspended", "MoveRequested")),
    kind=st.sampled_from((EndKind.LOSS, EndKind.STOPPED)),
    at=TIMES,
    deadline=TIMES,
    acknowledged_at=MAYBE,
    deleted_at=MAYBE,
    kill_at=MAYBE,
) | st.just(stopped())


@st.composite
def attempts(draw):
    state = draw(st.sampled_from(AttemptState))
    changes = {
        "fenced": draw(st.booleans()),
        "first_step": draw(st.none() | st.just(1)),
        "retry_at": draw(MAYBE),
        "acquire_deadline": draw(MAYBE),
        "refusals": draw(st.sampled_from((0, 3, 1000))),
        "avoid_nodes": draw(st.sampled_from(((), ("n1",)))),
        "tier": tier(draw(st.sampled_from(("spot", "cpu")))),
    }
    if state is AttemptState.DRAINING:
        changes["drain"] = draw(drains)
    return attempt(3, state, **changes)


@st.composite
def pods(draw, number):
    make = draw(st.sampled_from((pod, placed, pending, ended, lambda n, **c: ended(n, 1, **c))))
    changes = {"deleted_at": draw(MAYBE), "finalized": draw(st.booleans())}
    if make is not pending:
        changes["disruption"] = draw(st.sampled_from(("", "PreemptionByScheduler")))
    if make is ended and draw(st.booleans()):
        changes["message"] = verdict("drained", "SavedAndLeft", step=9)
    return make(number, **changes)


@st.composite
def snapshots(draw):
    current = draw(st.none() | attempts())
    fields = {"attempt": 3, "suspended_at": draw(MAYBE), "restarts": {"losses": draw(st.integers(0, 2))}}
    if current and draw(st.booleans()):
        fields |= {"attempt": 4, "successor": attempt(4, AttemptState.INTENDED)}
    if draw(st.booleans()):
        fields["requests"] = {"orders": 3, "checkpoint_order": 3}
    asked = {
        name: f"r{draw(st.integers(0, 1))} {draw(st.sampled_from(('', 'cpu', 'moon')))}"
        for name in (names.ANNOTATION_MOVE, names.ANNOTATION_CHECKPOINT)
        if draw(st.booleans())
    }
    given_job = job(
        status(current, **fields),
        meta={"annotations": asked},
        suspend=draw(st.booleans()),
        capacity=draw(st.sampled_from(({"tiers": list(TIERS)}, {"tiers": [TIERS[2]]}, {"profile": "grid"}))),
        activeDeadline=draw(st.sampled_from((None, "30m", "90d"))),
        ttlAfterFinished=draw(st.sampled_from((None, "0s"))),
    )
    seen = [draw(pods(number)) for number in (1, 2, 3, 4, 5) if draw(st.booleans())]
    cluster = draw(
        st.sampled_from(
            (
                nodes(),
                nodes(silent()),
                nodes(silent(), silent("n2")),
                nodes(without=("n1",)),
                nodes(node(taints=(SPOT_ITN,))),
            )
        )
    )
    reports = [stepped(3, received_at=draw(TIMES), acknowledged=draw(st.integers(0, 9)))] if draw(st.booleans()) else []
    refusal = draw(
        st.none() | st.sampled_from((403, 422, 409)).map(lambda code: Refusal(3, at(0), code, "NameTaken", "no"))
    )
    return snapshot(given_job, *seen, cluster=cluster, reports=reports, refusal=refusal, listening_since=draw(MAYBE))


@settings(max_examples=600, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(snapshots())
def test_a_decision_is_made_and_holds(given_snapshot):
    """`settled` decides twice; counters grow by one at most for each attempt whose end is recorded."""
    before, decision = given_snapshot.job.status, settled(given_snapshot)
    after = decision.status
    assert len(created(decision)) <= 1
    numbers = [record.number for record in after.history]
    ends = len(set(numbers) - {record.number for record in before.history})
    assert 0 <= after.restarts.losses - before.restarts.losses <= ends
    assert 0 <= after.restarts.failures - before.restarts.failures <= ends
    assert after.attempt >= before.attempt
    assert len(numbers) == len(set(numbers))
