"""How long a real Run waits for real loaders, as the operator is told."""

import time
from typing import Any

import pytest
import torch
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.stores import environment

from holdfast_train import ElasticSampler, Run
from holdfast_train.data.timed_loader import TimedLoader

STEPS = 12


class Numbers:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(self.seconds)  # as a file that is read
        return torch.tensor(float(number))


def told(endpoint: Endpoint, data: Any, sampler: ElasticSampler, seconds: float) -> float | None:
    """The share that a training tells at its end. Each step takes so many seconds beside its data."""
    with Run(environment=environment(None, 1, **endpoint.variables), data=sampler) as run:
        loader = run.waiting(data) if type(data) is torch.utils.data.DataLoader else data
        for _, _ in zip(run.steps(STEPS), loader, strict=False):
            time.sleep(seconds)
    last = endpoint.wait_for(lambda report: report["state"] == "completed")
    share = last["figures"].get("dataWait")
    return None if share is None else float(share)


# Breaks if a starved training is not told, or a fed one looks starved.
@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize(("data", "step", "starved"), [(0.01, 0.0, True), (0.0, 0.02, False)])
def test_a_starved_training_is_told_from_a_fed_one(
    endpoint: Endpoint, data: float, step: float, starved: bool, is_timed: bool
) -> None:
    sampler = ElasticSampler(64, batch=2)
    numbers = Numbers(data)
    plain = torch.utils.data.DataLoader(sampler.seeded(numbers), batch_sampler=sampler)
    share = told(endpoint, sampler.loader(numbers) if is_timed else plain, sampler, step)
    assert share is not None
    assert (share > 0.5) is starved


# Breaks if a subclass with another constructor, or another iterator each time, loses what DataLoader's workers keep.
def test_workers_that_stay(endpoint: Endpoint) -> None:
    sampler = ElasticSampler(64, batch=2)
    loader = sampler.loader(Numbers(0.0), num_workers=1, persistent_workers=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert type(loader) is TimedLoader
    batches = iter(loader)
    first = [next(batches).tolist() for _ in range(3)]
    assert first == [sampler.indices(step) for step in range(3)]
    kept = loader._iterator
    assert next(iter(loader)).tolist() == first[0]
    assert loader._iterator is kept
