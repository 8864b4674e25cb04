"""The objects that Run takes, and those whose state it cannot save."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, SequentialSampler

from holdfast_train import ElasticSampler, Generators, Values
from holdfast_train.errors import StateError
from holdfast_train.format.stateful import checked, has_position, stepping


def of(package: str, name: str, base: type) -> type:
    """A class that another package calls `name`."""
    return type(name, (base,), {"__module__": f"{package}.some.module"})


class Optimizer:
    """An optimizer with one parameter."""

    def __init__(self, parameter: Any = None, inner: Any = None) -> None:
        self.param_groups = [{"params": [parameter]}]
        if inner is not None:
            self.optimizer = inner

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any, /) -> None:
        pass


FSDP = of("torch.distributed.fsdp", "FullyShardedDataParallel", torch.nn.Module)
ENGINE = of("deepspeed.runtime", "DeepSpeedEngine", torch.nn.Module)
ZERO = of("deepspeed.runtime", "DeepSpeedZeroOptimizer_Stage3", Optimizer)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (FSDP(), "FSDP1 (FullyShardedDataParallel)"),
        (torch.nn.Sequential(torch.nn.ReLU(), FSDP()), "FSDP1 (FullyShardedDataParallel)"),
        (type("Subclass", (FSDP,), {})(), "FSDP1 (FullyShardedDataParallel)"),
        (Optimizer(of("torch.distributed.fsdp", "FlatParameter", object)()), "FSDP1 (FlatParameter)"),
        (of("torch.distributed.optim", "ZeroRedundancyOptimizer", Optimizer)(), "ZeroRedundancyOptimizer"),
        (ENGINE(), "DeepSpeed (DeepSpeedEngine)"),
        (ZERO(), "ZeRO of DeepSpeed"),
        (Optimizer(inner=ZERO()), "ZeRO of DeepSpeed"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_is_split_over_ranks_without_a_description_is_refused_by_name(thing: Any, words: str) -> None:
    with pytest.raises(StateError) as refused:
        checked("model", thing)
    assert str(refused.value).startswith(f"'model' uses {words}")
    assert "use FSDP2 (torch.distributed.fsdp.fully_shard) or DistributedDataParallel" in str(refused.value)


@pytest.mark.parametrize("package", ["my_program", "torchic"])
def test_a_class_of_another_package_may_have_the_same_name(package: str) -> None:
    thing = of(package, "FullyShardedDataParallel", torch.nn.Module)()
    assert checked("model", thing) is thing


def test_the_optimizer_that_steps_is_found_in_wrappers() -> None:
    inner = Optimizer()
    assert stepping(inner) is inner
    assert stepping(Optimizer(inner=Optimizer(inner=inner))) is inner


def test_samplers_and_loaders_have_a_position_in_the_data() -> None:
    model = torch.nn.Linear(1, 1)
    others = [model, torch.optim.SGD(model.parameters(), lr=1.0), Generators(), Values(mean=0.0)]
    assert not has_position(others)
    for one in (ElasticSampler(4, batch=2), SequentialSampler([1, 2]), DataLoader([1, 2])):  # type: ignore[arg-type]
        assert has_position([*others, one])
