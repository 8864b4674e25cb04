"""For any status and any view of a job: a decision leaves no job stuck, and a second one changes nothing."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.decisions.liveness import check_alive
from tests.support.decisions.snapshots import (
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
from holdfast.api.status import Phase, TrainingJobStatus
from holdfast.core.observe.report import SlowRank
from holdfast.core.observe.snapshot import Refusal

SPOT_ITN = "aws-node-termination-handler/spot-itn"
SLOW = SlowRank(rank=3, pod=0, own=0.9, others=0.5, step=1.0)
TIMES = st.sampled_from((-9000, -100, -31, -6, -1, 0, 5, 200)).map(at)
MAYBE = st.none() | TIMES
FEW = settings(max_examples=200, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=600)

drains = st.builds(
    drain,
    reason=st.sampled_from(("SpotInterruption", "NodeSilent", "Suspended", "MoveRequested")),
    kind=st.sampled_from((EndKind.INTERRUPTION, EndKind.STOPPED)),
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
        "replaces": draw(st.sampled_from((None, "n1"))),
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
    noted = {"action": "Noted", "message": "an earlier decision", "at": at(-60)}
    fields = {
        "attempt": 3,
        "decision": noted,
        "suspended_at": draw(MAYBE),
        "restarts": {"interruptions": draw(st.integers(0, 2))},
    }
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
        failure={"slowRanks": {"action": draw(st.sampled_from(("Replace", "Tell")))}},
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
    reports = []
    if draw(st.booleans()):
        slow = draw(st.sampled_from(((), (SLOW,))))
        reports = [stepped(3, received_at=draw(TIMES), acknowledged=draw(st.integers(0, 9)), slow_ranks=slow)]
    refusal = draw(
        st.none() | st.sampled_from((403, 422, 409)).map(lambda code: Refusal(3, at(0), code, "NameTaken", "no"))
    )
    return snapshot(given_job, *seen, cluster=cluster, reports=reports, refusal=refusal, listening_since=draw(MAYBE))


def check_stable(given_snapshot):
    """`settled` decides twice; counters grow by one at most for each attempt whose end is recorded."""
    before, decision = given_snapshot.job.status, settled(given_snapshot)
    check_alive(given_snapshot, decision)
    after = decision.status
    assert len(created(decision)) <= 1
    numbers = [record.number for record in after.history]
    ends = len(set(numbers) - {record.number for record in before.history})
    assert 0 <= after.restarts.interruptions - before.restarts.interruptions <= ends
    assert 0 <= after.restarts.failures - before.restarts.failures <= ends
    assert after.attempt >= before.attempt
    assert len(numbers) == len(set(numbers))


@FEW
@given(snapshots())
def test_a_decision_is_made_and_is_stable(given_snapshot):
    check_stable(given_snapshot)


@pytest.mark.thorough
@MANY
@given(snapshots())
def test_many_decisions_are_made_and_are_stable(given_snapshot):
    check_stable(given_snapshot)


POLICIES = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(("Ordered", "Cheapest", "Deadline")),
        "deadline": st.sampled_from(
            ("2026-11-21T08:00:00Z", "2026-11-21T12:30:00Z", "2026-11-21T13:30:00Z", "2026-12-24T00:00:00Z")
        ),
        "returnPolicy": st.sampled_from(("Never", "Eager", "Slack")),
        "maxOverlap": st.sampled_from(("0s", "10m")),
        "tiers": st.sampled_from((list(TIERS), [TIERS[0]], list(TIERS[1:]), [TIERS[1], TIERS[0]])),
    },
    optional={"budget": st.sampled_from(("0", "0.3", "3", "900"))},
)
SPELLS = st.sampled_from(("Up", "TookBack", "Refused"))


@st.composite
def under_a_policy(draw):
    """Like `snapshots`, with a policy, a goal of four hours and what is known of the tiers; sometimes a successor."""
    given_snapshot = draw(snapshots())
    before = given_snapshot.job.status
    fields = {"tiers": [], "progress": {"step": draw(st.sampled_from((0, 900, 14_400))), "steps": 14_400}}
    for name in ("spot", "dedicated"):
        if draw(st.booleans()):
            since = draw(st.sampled_from((-9000, -90)))
            fields["tiers"].append(
                {"tier": name, "pace": "1s", "state": draw(SPELLS), "since": at(since), "seen_at": at(-5)}
            )
    current = before.current
    if current and current.state is AttemptState.RUNNING and draw(st.booleans()):
        steps = {"first_step": 500, "progress_at": at(-400), "last_step": 900, "last_step_at": at(-1), "fenced": True}
        fields["current"] = current.model_copy(update=steps)
        if draw(st.booleans()):
            state = draw(st.sampled_from(AttemptState))
            if state is not AttemptState.DRAINING:
                chosen = tier(draw(st.sampled_from(("spot", "dedicated"))))
                away = draw(st.sampled_from(((), ("n1",))))
                beside = attempt(4, state, tier=chosen, predecessor=3, avoid_nodes=away)
                fields |= {"successor": beside, "attempt": 4}
    after = TrainingJobStatus.model_validate({**dict(before), **fields})
    spec = {"capacity": draw(POLICIES), "goal": {"steps": 14_400}, "suspend": given_snapshot.job.spec.suspend}
    annotations = given_snapshot.job.metadata.annotations
    return replace(given_snapshot, job=job(after, meta={"annotations": dict(annotations)}, **spec))


def check_policy(given_snapshot):
    """It is stable; a job over its budget starts nothing; every new attempt is on a tier of the grid."""
    before, decision = given_snapshot.job.status, settled(given_snapshot)
    check_alive(given_snapshot, decision)
    after, grid = decision.status, {one.name for one in given_snapshot.grid}
    known = {one.number for one in (before.current, before.successor) if one}
    for one in (after.current, after.successor):
        assert one is None or one.number in known or one.tier.name in grid | {"spot"}
    over_budget = any(one.type == "BudgetAtRisk" and one.reason == "Exceeded" for one in after.conditions)
    if over_budget and after.phase is Phase.SUSPENDED:
        assert created(decision) == []
    assert after.restarts.interruptions >= before.restarts.interruptions


@FEW
@given(under_a_policy())
def test_a_decision_is_made_under_every_policy(given_snapshot):
    check_policy(given_snapshot)


@pytest.mark.thorough
@MANY
@given(under_a_policy())
def test_many_decisions_are_made_under_every_policy(given_snapshot):
    check_policy(given_snapshot)
