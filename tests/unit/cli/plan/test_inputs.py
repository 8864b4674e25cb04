"""From a job to a plan."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.cli.plan.test_command import SPOT, V100, manifest

from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast_cli.plan.inputs import Wishes, prepare
from holdfast_cli.simulate.climate import mean_spell
from holdfast_cli.simulate.durations import Durations
from holdfast_cli.simulate.machines import Spell
from holdfast_cli.simulate.plan import Market, Way, run
from holdfast_cli.simulate.replay import Node, Schedule, replay

DAY, HOUR, MINUTE, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
SPELLS = (Spell(end=2 * HOUR, notice=MINUTE), Spell(3 * HOUR, 4 * HOUR, MINUTE), Spell(5 * HOUR))


class Lived(Market):
    """The market that the job met."""

    def draw(self, seed: str) -> Iterator[Spell]:
        return iter(SPELLS)


# Breaks if more nodes are not lost more often, or cost no more.
@pytest.mark.parametrize(("nodes", "mean"), [(1, DAY / 2), (4, DAY / 8)])
def test_the_more_nodes_the_more_often_one_is_lost(nodes: int, mean: timedelta) -> None:
    wishes = Wishes(interruptions={"spot": DAY / 2}, out={"spot": DAY / 24}, nodes=nodes)
    plan = prepare(TrainingJob.parse(manifest(SPOT, V100)), None, None, wishes).plan
    climate = plan.markets["spot"].climate
    assert climate is not None
    assert mean_spell(climate.up) == pytest.approx(mean.total_seconds())
    assert mean_spell(climate.down) == pytest.approx(3600)
    assert [tier.price_per_node_hour for tier in plan.tiers] == [nodes, 3 * nodes]
    assert plan.job.spec.trainer.nodes == 1


# Breaks if a plan leaves out a start, a save, a restore or repeated steps that the job paid for, or takes other figures
# than those that the job measured. tests/e2e/commands/test_plan.py does the same with a job in a cluster.
def test_a_plan_from_what_a_job_measured_costs_what_the_job_cost() -> None:
    job = TrainingJob.parse(manifest({**SPOT, "pace": "60s"}, {**V100, "pace": "60s"}, returnPolicy="Eager"))
    job = job.model_copy(update={"metadata": job.metadata.model_copy(update={"namespace": "n", "uid": "u"})})
    took = Durations(20 * SECOND, 5 * MINUTE, restore=40 * SECOND, pace=7 * SECOND, save=20 * SECOND)
    schedule = Schedule([Node("spot", "spot", SPELLS), Node("v100", "v100")], period=10 * MINUTE)
    lived = replay(job, schedule, {"spot": took, "v100": took}).job
    assert lived.status.restarts.interruptions == 2 and len(lived.status.ledger.by_tier) == 2

    wishes = Wishes(restore=took.restore, save=took.save)
    basis = prepare(job.model_copy(update={"status": TrainingJobStatus()}), None, lived, wishes)
    planned = run(replace(basis.plan, markets={"spot": Lived()}), Way("Ordered"), 0)
    assert planned.interruptions == 2
    assert float(planned.cost) == pytest.approx(float(lived.status.ledger.spent), rel=0.05)
