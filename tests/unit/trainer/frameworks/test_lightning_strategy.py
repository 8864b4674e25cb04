"""Which strategies of Lightning are refused."""

import pytest
from lightning.fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning.fabric.strategies import DDPStrategy, FSDPStrategy, SingleDeviceStrategy
from lightning.pytorch.strategies import DDPStrategy as DDPOfTrainer

from holdfast_train.errors import StateError
from holdfast_train.frameworks.lightning_strategy import refuse_strategy


@pytest.mark.parametrize("kind", [DDPStrategy, DDPOfTrainer])
def test_ranks_of_torchrun_and_one_process_are_accepted(kind: type) -> None:
    refuse_strategy(SingleDeviceStrategy(), 1)
    refuse_strategy(kind(cluster_environment=TorchElasticEnvironment()), 2)


# Breaks if the parts of a sharded model are taken for the whole.
def test_a_strategy_that_shards_is_refused() -> None:
    with pytest.raises(StateError, match=r"FSDPStrategy.*strategy='ddp'"):
        refuse_strategy(FSDPStrategy(cluster_environment=TorchElasticEnvironment()), 2)


# Breaks if processes without the ranks of torchrun are taken: each of them would be a training of its own.
def test_processes_that_lightning_starts_are_refused() -> None:
    with pytest.raises(StateError, match="2 processes were not started by torchrun"):
        refuse_strategy(DDPStrategy(cluster_environment=LightningEnvironment()), 2)
