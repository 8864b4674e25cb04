"""A plan and life agree: what `holdfast plan` says of a job is what the job costs in a cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import pytest
from tests.e2e.commands.test_simulation import NOTICE, config, durations, known, live, schedule, trained
from tests.support.cluster.local_cluster import delete
from tests.support.cluster.training_jobs import Pool, stub, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast_cli.plan.inputs import Wishes, prepare
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.plan import Draw, Market, Way, run
from holdfast_local.cluster import Cluster

STEPS: Final = 4000  # so that whole seconds, in which a kubelet tells starts and ends, are small


@dataclass(frozen=True, slots=True)
class Lived(Market):
    """The market that the job met: instead of a drawn one."""

    spells: tuple[Spell, ...] = ()

    def draw(self, seed: str) -> Iterator[Spell]:
        """The same spells for every seed."""
        return iter(self.spells)


@pytest.mark.thorough
def test_a_plan_is_within_five_hundredths_of_the_job(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool
) -> None:
    """Breaks if a plan leaves out a start, a save, a restore or repeated steps, or pays for them otherwise."""
    tiers = [pool.tier(name, pricePerNodeHour=price) for name, price in (("spot", "1.02"), ("dedicated", "3.06"))]
    cluster.crash(pool.node("spot-2"))
    delete(cluster, f"node/{pool.node('spot-2')}")
    capacity = {"tiers": tiers, "returnPolicy": "Eager"}
    program = stub("--step-seconds", 0.05)
    job = submit(cluster, namespace, tiers, program, capacity=capacity, goal={"steps": STEPS})
    noticed = live(cluster, pool, job, timeout=400)
    lived = TrainingJob.parse(job.get())

    planned = plan(lived, noticed)
    assert planned.interruptions == lived.status.restarts.interruptions == 1
    assert abs(planned.cost / lived.status.ledger.spent - 1) <= 0.05
    assert abs(planned.took / (known(lived.status.finished_at) - begun(lived)) - 1) <= 0.05


def plan(lived: TrainingJob, noticed: datetime) -> Draw:
    """What a plan says of the job, from what the job measured, as with --from, and from when its Spot node was up."""
    took = durations(lived.status)["spot"]
    wishes = Wishes(restore=took.restore, save=took.save + took.leave, notice=NOTICE)
    again = lived.model_copy(update={"status": TrainingJobStatus()})
    basis = prepare(again, None, lived, wishes)
    spot = next(node for node in schedule(lived.status, noticed).nodes if node.tier == "spot")
    market = Lived(spells=tuple(spot.spells), notice=NOTICE)
    return run(replace(basis.plan, markets={"spot": market}, config=config()), Way("Ordered"), 0)


def begun(lived: TrainingJob) -> datetime:
    """When the first attempt began."""
    return trained(lived.status)[0].raised_at
