"""A tier may have its own number of accelerators: in pods, and in what jobs of a profile learn from each other."""

import pytest
from tests.support.decisions.snapshots import (
    CONFIG,
    NOW,
    TIERS,
    attempt,
    job,
    nodes,
    placed,
    settled,
    snapshot,
    status,
    tier,
)
from tests.support.decisions.tier_views import SECOND, known, seen

from holdfast.api.attempt import AttemptState
from holdfast.api.knowledge import Seen
from holdfast.api.profile import CapacityProfileStatus, ProfileTier
from holdfast.core.capacity.profile_knowledge import JobView, profile_status
from holdfast.core.pod_manifest import build_pod


# Breaks if a grid of nodes with one large or four small accelerators gets pods of one size on both.
@pytest.mark.parametrize(("of_trainer", "asked"), [(1, "4"), (8, "4"), (0, None)])
def test_a_tier_may_have_another_number_of_accelerators(of_trainer: int, asked: str | None):
    on = ProfileTier.model_validate({**TIERS[0], "acceleratorsPerNode": 4})
    given = {"image": "registry.example/train:1", "command": ["torchrun"], "acceleratorsPerNode": of_trainer}
    pod = build_pod(job(trainer=given), attempt(tier=on), CONFIG, 7200)
    found = pod["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in found["env"]}
    assert found["resources"]["limits"].get("nvidia.com/gpu") == asked
    assert found["resources"]["requests"] == found["resources"]["limits"]
    processes = (env["HOLDFAST_ACCELERATORS"], env["PET_NPROC_PER_NODE"])
    assert processes == (asked or "0", asked or "1")


# Breaks if jobs on a tier that has its own number of accelerators are taken for jobs that were edited.
def test_a_tier_with_its_own_number_of_accelerators_is_shared_by_that_number():
    four = tier("dedicated").model_copy(update={"accelerators_per_node": 4})
    has = attempt(accelerators=4, tier=four)
    view = JobView.of(job(status(has)), (known(node_time=SECOND, accelerators=1),), (tier("spot"), four))
    assert (view.on, view.obtained) == ({"dedicated": 1}, {"dedicated", "spot"})
    assert [view.demand_on(name).accelerators for name in ("spot", "dedicated", "cpu")] == [1, 4, 1]
    waits = [
        JobView.of(
            job(status(), meta={"namespace": namespace}),
            (known("dedicated", **seen("Refused", -61, 0), accelerators=4),),
            (four,),
        )
        for namespace in ("vision", "language")
    ]
    names = ["spot", "dedicated", "cpu"]
    (found,) = profile_status(names, CapacityProfileStatus(), waits, totals={}, level={}, now=NOW).tiers
    assert [(one.accelerators, one.state) for one in found.shapes] == [(4, Seen.REFUSED)]


# Breaks if an attempt notes another number than its pods ask for, or takes a node with fewer as its own.
@pytest.mark.parametrize(("has", "granted"), [(4, True), (1, False)])
def test_an_attempt_on_the_tier_knows_its_number_and_takes_only_such_nodes(has: int, granted: bool):
    four = tier().model_copy(update={"accelerators_per_node": 4})
    intended = attempt(2, AttemptState.INTENDED, tier=four)
    grid = {"tiers": [{**TIERS[0], "acceleratorsPerNode": 4}]}
    made = settled(snapshot(job(status(intended), capacity=grid))).status.current
    assert made is not None and made.accelerators == 4
    waits = attempt(state=AttemptState.ACQUIRING, tier=four, accelerators=4)
    seen_pod = placed(requests={"nvidia.com/gpu": str(has)})
    found = settled(snapshot(job(status(waits), capacity=grid), seen_pod, cluster=nodes())).status.current
    assert found is not None and found.pods[0].granted is granted
