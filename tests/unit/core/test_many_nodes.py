"""A training on 1,024 nodes: what a decision costs, and how large its status gets."""

from collections.abc import Mapping
from random import Random

import pytest
from tests.support.decisions.many_nodes import decision_seconds, moments
from tests.support.decisions.snapshots import at, settled

from holdfast.api.attempt import MAX_AVOIDED, MAX_GROUPS, AttemptRecord, AttemptState, EndKind
from holdfast.core.observe.members import groups_of
from holdfast.core.observe.snapshot import Snapshot

NODES = 1024
FEW = 64


@pytest.fixture(scope="module")
def large() -> Mapping[str, Snapshot]:
    return moments(NODES)


def test_a_decision_costs_in_proportion_to_the_nodes(large):
    """Breaks if something is done for each pair of pods: that costs 256 times as much with 16 times as many."""
    few = moments(FEW)
    times = {moment: decision_seconds(given) / decision_seconds(few[moment]) for moment, given in large.items()}
    assert {moment: found for moment, found in times.items() if found > 2 * NODES / FEW} == {}


@pytest.mark.parametrize("scattered", [False, True])
def test_a_status_stays_small_whatever_is_lost(large, scattered):
    """Ranks of as many attempts as status may name, in any mixture, in both attempts; long messages in history."""
    given = large["one node lost"]
    random = Random("ranks")
    born = {rank: 1 + (random.randrange(MAX_GROUPS) if scattered else rank % MAX_GROUPS) for rank in range(NODES)}
    members = groups_of(born, 10_000)
    assert len(members) > MAX_GROUPS - 10
    avoided = tuple(f"{number:03}{'x' * 60}" for number in range(MAX_AVOIDED))
    current = given.job.status.current.model_copy(
        update={"number": 10_000, "members": members, "avoid_nodes": avoided, "inherited_at": at(-60)}
    )
    records = tuple(
        AttemptRecord(number=9_000 + number, tier="spot", kind=EndKind.FAILURE, reason="UserException",
                      message="x" * 2560, raised_at=at(-900), ended_at=at(-600), rank=number)
        for number in range(6)
    )  # fmt: skip
    changes = {"attempt": 10_001, "current": current, "history": records}
    successor = current.model_copy(update={"number": 10_001, "state": AttemptState.INTENDED, "predecessor": 10_000})
    status = given.job.status.model_copy(update={**changes, "successor": successor})
    job = given.job.model_copy(update={"status": status})
    decision = settled(type(given)(now=given.now, job=job, cluster=given.cluster, config=given.config))
    assert len(status.model_dump_json(by_alias=True)) < 64 * 1024
    assert len(decision.status.model_dump_json(by_alias=True)) < 64 * 1024
