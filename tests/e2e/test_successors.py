"""Make before break: the next attempt comes up while the current one trains, and the switch loses no step."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.support.cluster.local_cluster import delete, items
from tests.support.cluster.training_jobs import Job, Pool, kinds, restarts, slow_at_first, storage_log, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api.scalars import parse_time
from holdfast_local.cluster import Cluster


def on_tier(kind: str) -> Callable[[dict[str, Any]], bool]:
    """True of a status of a job that trains on this tier."""
    return lambda s: s.get("phase") == "Running" and s.get("tier") == kind and bool(s["current"].get("firstStep"))


def without_spot(cluster: Cluster, pool: Pool) -> list[dict[str, Any]]:
    """Spot and dedicated, and no node of spot any more."""
    for name in ("spot-1", "spot-2"):
        cluster.crash(pool.node(name))
        delete(cluster, f"node/{pool.node(name)}")
    return [pool.tier("spot"), pool.tier("dedicated")]


def check_switches(cluster: Cluster, job: Job, steps: int) -> None:
    """Every attempt began after the step of the one before, which had handed over; every step was made once."""
    done = job.status()
    trained = [record for record in done["history"] if record.get("stepsTrained")]
    for before, after in pairwise(trained):
        assert after["resumedStep"] == before["lastStep"]
        assert before.get("stepsLost", 0) == 0
    assert sum(record["stepsTrained"] for record in trained) == steps
    log = kinds(storage_log(cluster, f"{job.namespace}/{job.name}"))
    for before, after in pairwise(trained):
        assert log.index(("handover", before["number"])) == log.index(("fence", after["number"])) - 1


def test_trains_on_until_the_next_attempt_is_ready(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the successor waits for the other's end, trains beside it, or resumes before that one has saved."""
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("cpu")], slow_at_first(0.1))
    node = job.wait_checkpoint(20)["node"]

    cluster.reclaim(node, timedelta(seconds=25))

    done = job.wait_phase("Completed")
    one, two = done["history"]
    assert (one["kind"], one["reason"]) == ("Interruption", "SpotInterruption")
    assert (two["kind"], restarts(done)) == ("Completed", (1, 0, 0))
    assert parse_time(two["scheduledAt"]) < parse_time(one["lastStepAt"]), "it had its node while the other trained"
    assert two["node"] != node
    check_switches(cluster, job, 200)
    assert "waited at the fence" in job.logs(two["number"])
    wait_for(lambda: f"attempt {two['number']} is ready" in _events(job), 20, "the event that says why it left")


@pytest.mark.thorough
def test_goes_back_to_spot_as_soon_as_it_has_a_node(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if nothing probes for the better tier, or the job leaves its node before the other one is ready.

    Eager, for Spot would have to prove itself for minutes.
    """
    tiers = without_spot(cluster, pool)
    job = submit(cluster, namespace, tiers, stub("--step-seconds", 0.05), goal={"steps": 600})
    job.patch({"capacity": {"returnPolicy": "Eager"}})
    first = job.wait("training on dedicated", on_tier("dedicated"))
    probe = job.wait("a probe", lambda s: (s.get("successor") or {}).get("state") == "Acquiring")["successor"]
    assert probe["tier"]["name"] == "spot"

    cluster.restore(pool.node("spot-1"))

    job.wait("training on spot", on_tier("spot"))
    done = job.wait_phase("Completed")
    returned = next(r for r in done["history"] if r["number"] == first["current"]["number"])
    assert (returned["kind"], returned["reason"]) == ("Stopped", "Returning")
    assert restarts(done) == (0, 0, 0)
    check_switches(cluster, job, 600)


def test_stays_where_it_is_if_the_user_says_so(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if returnPolicy is not obeyed, or an edit does not reach a successor that waits for a node."""
    tiers = without_spot(cluster, pool)
    job = submit(cluster, namespace, tiers, stub("--step-seconds", 0.1), goal={"steps": 10_000})
    probing = job.wait("a probe", lambda s: (s.get("successor") or {}).get("state") == "Acquiring")
    job.patch({"capacity": {"returnPolicy": "Never"}})
    job.wait("no probe", lambda s: not s.get("successor"))
    wait_for(lambda: len(job.pods()) == 1, 30, "the pod that waited to be gone")
    assert job.status()["history"] == probing["history"], "a probe that found nothing leaves no trace"
    job.delete()


def test_a_successor_that_is_lost_costs_nothing_but_itself(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if losing a pod that only waits is counted as an interruption of the training's, or stops it."""
    tiers = [pool.tier("spot"), pool.tier("dedicated")]
    job = submit(cluster, namespace, tiers, slow_at_first(0.05, "--start-seconds", 4), goal={"steps": 300})
    node = job.wait_checkpoint(20)["node"]
    cluster.reclaim(node, timedelta(seconds=40))
    lost = job.wait("a successor on its node", lambda s: (s.get("successor") or {}).get("pods"))["successor"]

    delete(cluster, f"pod/job-{lost['number']}-0", namespace)

    done = job.wait_phase("Completed")
    given_up = next(r for r in done["history"] if r["number"] == lost["number"])
    assert (given_up["kind"], given_up.get("steps", 0)) == ("Interruption", 0)
    check_switches(cluster, job, 300)


@pytest.mark.thorough
def test_the_handover_needs_no_operator(
    cluster: Cluster, namespace: str, lone_operator: Callable[..., OperatorProcess], pool: Pool
) -> None:
    """Breaks if a successor can only go on by order: the operator is killed before the switch."""
    operator = lone_operator()
    operator.start()
    job = submit(cluster, namespace, [pool.tier("spot"), pool.tier("dedicated")], stub("--step-seconds", 0.1))
    node = job.wait_checkpoint(20)["node"]
    # Without an operator the trainer leaves on SIGTERM: a busy machine then needs seconds to save.
    cluster.reclaim(node, timedelta(seconds=16), kill_after=timedelta(seconds=20))
    ready = job.wait("a successor that runs", lambda s: (s.get("successor") or {}).get("state") == "Running")
    number = ready["successor"]["number"]
    operator.kill()

    def handed_over() -> bool:
        log = kinds(storage_log(cluster, f"{namespace}/job"))
        return [entry for entry in log if entry[0] not in ("commit", "quarantine")][-3:] == [
            ("handover", 1), ("fence", number), ("complete", number),
        ]  # fmt: skip

    wait_for(handed_over, 120, "the successor to take over, and to complete")

    operator.start()
    done = job.wait_phase("Completed")
    assert [r["number"] for r in done["history"]] == [1, number]
    assert "total 20100" in job.logs(number), "200 steps, each exactly once"


def _events(job: Job) -> str:
    found = items(job.cluster, "event", job.namespace)
    return "\n".join(f"{event['reason']}: {event['message']}" for event in found)
