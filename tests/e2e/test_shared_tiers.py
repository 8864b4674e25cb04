"""What one job finds out about a tier spares the others of the same profile the trouble."""

from collections.abc import Callable

import pytest
from tests.support.cluster.local_cluster import apply, delete, get
from tests.support.cluster.training_jobs import Job, Pool, job_manifest, s3_secret, stub
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.cluster import Cluster

QUICK = stub("--step-seconds", 0.02, "--steps", 50)


@pytest.mark.thorough
def test_a_job_does_not_ask_for_what_another_one_was_just_refused(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess], pool: Pool
) -> None:
    """Breaks if knowledge is lost with the job or the operator that has it, or if no other job uses it."""
    for name in ("spot-1", "spot-2"):
        cluster.crash(pool.node(name))
        delete(cluster, f"node/{pool.node(name)}")
    tiers = [pool.tier("spot", pricePerNodeHour="1"), pool.tier("dedicated", pricePerNodeHour="3")]
    profile = {"apiVersion": names.API_VERSION, "kind": names.PROFILE_KIND, "metadata": {"name": namespace}}
    apply(cluster, s3_secret(cluster), namespace=namespace)
    apply(cluster, {**profile, "spec": {"tiers": tiers}})
    another = f"{namespace}-b"  # one namespace alone does not take a tier out for others
    cluster.kubectl("create", "namespace", another)
    apply(cluster, s3_secret(cluster), namespace=another)
    operator = lone_operator()

    def submit(name: str, policy: str, where: str = namespace) -> Job:
        manifest = job_manifest(cluster, where, name, [], QUICK, goal={"steps": 50})
        manifest["spec"]["capacity"] = {"profile": namespace, "policy": policy, "returnPolicy": "Never"}
        apply(cluster, manifest)
        return Job(cluster, where, name, manifest)

    def spot() -> str:
        known = get(cluster, f"capacityprofile/{namespace}").get("status", {}).get("tiers", [])
        return next((one.get("state", "") for one in known if one["tier"] == "spot"), "")

    try:
        operator.start()
        firsts = [submit("first", "Ordered"), submit("first", "Ordered", another)]
        for first in firsts:
            tried = [record["tier"] for record in first.wait_phase("Completed")["history"]]
            assert tried == ["spot", "dedicated"]
        wait_for(lambda: spot() == "Refused", 20, "the profile to say that spot is out")
        for first in firsts:
            first.delete()
        operator.bury()
        operator.start()

        done = submit("second", "Cheapest").wait_phase("Completed")
    finally:
        delete(cluster, f"capacityprofile/{namespace}")
        delete(cluster, f"namespace/{another}")
    assert [(record["number"], record["tier"]) for record in done["history"]] == [(1, "dedicated")]
