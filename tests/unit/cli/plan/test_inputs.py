"""From a job to a plan."""

from datetime import timedelta

import pytest
from tests.unit.cli.plan.test_command import SPOT, V100, manifest

from holdfast.api.objects import TrainingJob
from holdfast.cli.plan.inputs import Wishes, prepare
from holdfast.simulate.synthetic import mean_spell

DAY = timedelta(days=1)


# Breaks if more nodes are not lost more often, or cost no more.
@pytest.mark.parametrize(("nodes", "mean"), [(1, DAY / 2), (4, DAY / 8)])
def test_the_more_nodes_the_more_often_one_is_lost(nodes: int, mean: timedelta) -> None:
    wishes = Wishes(losses={"spot": DAY / 2}, out={"spot": DAY / 24}, nodes=nodes)
    plan = prepare(TrainingJob.parse(manifest(SPOT, V100)), None, None, wishes).plan
    climate = plan.markets["spot"].climate
    assert climate is not None
    assert mean_spell(climate.up) == pytest.approx(mean.total_seconds())
    assert mean_spell(climate.down) == pytest.approx(3600)
    assert [tier.price_per_node_hour for tier in plan.tiers] == [nodes, 3 * nodes]
    assert plan.job.spec.trainer.nodes == 1
