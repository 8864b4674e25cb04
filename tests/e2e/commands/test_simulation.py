"""Simulation and life agree: the same job, tiers and reclaims, in a cluster and in the virtual one, cost the same."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.conftest import PATIENCE
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Job, Pool, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api.attempt import AttemptRecord
from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast.core.observe.config import OperatorConfig
from holdfast.runtime.settings import Settings
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.replay import Node, Schedule, replay
from holdfast_cli.simulate.world import CONFIG
from holdfast_local.cluster import Cluster

EVERY, STEPS = 20, 2600  # enough for whole seconds, in which a kubelet tells starts and ends, to be small
NOTICE = timedelta(seconds=12)
ZERO = timedelta(0)
PATH = ["spot", "dedicated", "spot"]


@pytest.mark.thorough
def test_a_run_and_its_replay_cost_the_same(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if the virtual cluster starts, overlaps, leaves or pays otherwise than a real one does."""
    prices = {"spot": "1.02", "dedicated": "3.06"}
    tiers = [pool.tier(name, pricePerNodeHour=price) for name, price in prices.items()]
    cluster.crash(pool.node("spot-2"))
    delete(cluster, f"node/{pool.node('spot-2')}")
    eager = {"tiers": tiers, "returnPolicy": "Eager"}
    job = submit(cluster, namespace, tiers, stub("--step-seconds", 0.05), capacity=eager, goal={"steps": STEPS})

    noticed = live(cluster, pool, job)

    lived = TrainingJob.parse(job.get())
    again = lived.model_copy(update={"status": TrainingJobStatus()})
    simulated = replay(again, schedule(lived.status, noticed), durations(lived.status), config=config()).status
    assert [record.tier for record in trained(lived.status)] == PATH
    assert [record.tier for record in trained(simulated)] == PATH
    # On a quiet machine it is within 0.03; a kubelet tells starts and ends in whole seconds, and a busy one late.
    assert abs(simulated.ledger.spent / lived.status.ledger.spent - 1) <= 0.1


def live(cluster: Cluster, pool: Pool, job: Job, timeout: float = 120) -> datetime:
    """Train on Spot until its node is taken, then on dedicated, and go back; returns when the notice was given."""
    job.wait_step(600)
    noticed = datetime.now(UTC)
    cluster.reclaim(pool.node("spot-1"), NOTICE)
    job.wait("training on dedicated", lambda s: s.get("tier") == "dedicated" and s["progress"].get("step", 0) > 1100)
    wait_for(lambda: pool.node("spot-1") not in cluster.kubectl("get", "nodes", "-o", "name"), 60, "the node to go")
    cluster.restore(pool.node("spot-1"))
    job.wait_phase("Completed", timeout=timeout)
    return noticed


def config() -> OperatorConfig:
    """That of the operator which runs in these tests, for a job whose reports are always heard."""
    own = Settings(patience=PATIENCE).operator_config()
    reports = {"progress_url": CONFIG.progress_url, "unreported_after": CONFIG.unreported_after}
    return replace(own, status_interval=ZERO, **reports)


def trained(status: TrainingJobStatus) -> list[AttemptRecord]:
    """The attempts that took steps."""
    return [record for record in status.history if record.steps_trained]


def schedule(status: TrainingJobStatus, noticed: datetime) -> Schedule:
    """When Spot was there: until its notice was over, and again from the moment at which the last attempt had it."""
    first, *_, last = trained(status)
    gone, back = noticed + NOTICE - first.raised_at, known(last.scheduled_at) - first.raised_at
    spot = Node("spot", "spot-1", (Spell(ZERO, gone, NOTICE), Spell(back)))
    return Schedule([spot, Node("dedicated", "dedicated-1")], every=EVERY)


def durations(status: TrainingJobStatus) -> dict[str, Durations]:
    """What the run recorded, by tier. How long a program loads is not to be seen where it waited at the fence."""
    first, second, third = trained(status)
    restore = mean(one.recovery.restore for one in (first, second) if one.recovery)
    load = max(known(first.first_step_at) - known(first.started_at) - restore, ZERO)

    def of(*attempts: AttemptRecord) -> Durations:
        return Durations(
            start=mean(known(one.started_at) - known(one.scheduled_at) for one in attempts),
            load=load,
            restore=restore,
            pace=mean(
                (known(one.last_step_at) - known(one.first_step_at)) / (one.steps_trained - 1) for one in attempts
            ),
            leave=mean(max(one.ended_at - known(one.last_step_at), ZERO) for one in attempts),
        )

    return {"spot": of(first, third), "dedicated": of(second)}


def mean(spans: Iterable[timedelta]) -> timedelta:
    """The mean of some spans."""
    several = list(spans)
    return sum(several, ZERO) / len(several)


def known(at: datetime | None) -> datetime:
    """A time that the run must have recorded."""
    assert at is not None
    return at
