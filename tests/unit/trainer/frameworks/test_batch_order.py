import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from holdfast_train.frameworks.batch_order import Batch, BatchOrder, SeededBatches, seed_evaluation


class Noise:
    """Each sample, and each call of `collate`, is a random number."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> float:
        if number == 5:
            raise KeyError(number)
        return random.random()

    @staticmethod
    def collate(samples: list[float]) -> list[float]:
        return [*samples, torch.rand(()).item()]


def batch(key: str, *numbers: int) -> Batch:
    found = Batch(numbers)
    found.key = key
    return found


# Breaks if a batch loses its place on the way to a worker.
def test_a_batch_keeps_its_key_when_it_is_sent() -> None:
    found = pickle.loads(pickle.dumps(batch("1/2", 3, 4)))
    assert (found, found.key) == ([3, 4], "1/2")


# Breaks if a digest stands for one batch and not for all of them up to it.
def test_digests_tell_orders_apart() -> None:
    first, second = BatchOrder([[0, 1], [2, 3]]), BatchOrder([[1, 0], [2, 3]])
    assert [list(one) for one in first] == [[0, 1], [2, 3]]
    list(second)
    assert len(first.digests) == len(first) == 2
    assert not set(first.digests) & set(second.digests)


# Breaks if accelerate, which looks for attributes of the sampler, finds none.
def test_the_order_has_the_attributes_of_its_sampler() -> None:
    order = BatchOrder(BatchSampler(SequentialSampler(range(4)), 2, drop_last=True))
    assert (order.batch_size, order.drop_last, len(order)) == (2, True, 2)
    assert not hasattr(order, "set_epoch")


# Breaks if the numbers depend on what the process drew before, or if training's own numbers change.
def test_random_numbers_depend_on_the_batch_alone() -> None:
    data = SeededBatches(Noise(), Noise.collate, "7/0")
    first = data.collate(data.__getitems__(batch("0/1", 1, 2)))
    random.seed(5)
    torch.manual_seed(5)
    before = (random.getstate(), torch.get_rng_state().tolist())
    assert data.collate(batch("0/1", 1, 2)) == first
    assert data.collate(batch("1/1", 1, 2)) != first
    assert SeededBatches(Noise(), Noise.collate, "8/0").collate(batch("0/1", 1, 2)) != first
    with pytest.raises(KeyError):
        data.collate(batch("0/2", 5))
    assert (random.getstate(), torch.get_rng_state().tolist()) == before


class OwnNoise(Noise):
    """The same with generators of its own, one of which each worker makes."""

    rng: Any = None

    def __init__(self) -> None:
        self.source = [random.Random(1)]

    def __getitem__(self, number: int) -> float:
        return float(self.source[0].random() + (0.0 if self.rng is None else self.rng.random()))


class OwnCollate:
    """Makes its generator at its first call, from what differs between workers."""

    rng: Any = None

    def __call__(self, samples: list[float]) -> list[float]:
        info: Any = torch.utils.data.get_worker_info()
        self.rng = self.rng or np.random.default_rng(0 if info is None else info.seed)
        return [*samples, self.rng.random()]


def seed_worker(number: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.rng = np.random.default_rng(number)


# Breaks if the number of workers changes a batch, or if the loader does not read whole batches of the data set.
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("noise", "collate"), [(Noise(), Noise.collate), (OwnNoise(), OwnCollate())], ids=["", "own"])
def test_a_loader_gives_the_same_batches_with_any_number_of_workers(workers: int, noise: Any, collate: Any) -> None:
    data = SeededBatches(noise, collate, "7/0")
    loader: Any = DataLoader(
        data,  # type: ignore[arg-type]
        batch_sampler=BatchOrder([[0, 1], [2, 3], [4]]),
        collate_fn=data.collate,
        num_workers=workers,
    )
    expected = [data.collate(batch(f"0/{n}", *range(2 - n // 2))) for n in range(3)]
    found: Iterator[list[float]] = iter(loader)
    assert list(found) == expected


# Breaks if a worker_init_fn sets its generator where the data set does not see it.
def test_a_worker_may_set_attributes_of_its_data_set() -> None:
    data = SeededBatches(OwnNoise(), Noise.collate, "7/0")
    batches = [batch("0/0", 0, 1), batch("0/1", 2)]
    loader: Any = DataLoader(
        data,  # type: ignore[arg-type]
        batch_sampler=batches,
        collate_fn=data.collate,
        num_workers=2,
        worker_init_fn=seed_worker,
    )
    found = list(loader)
    data.rng = np.random.default_rng(9)
    assert isinstance(data.dataset.rng, np.random.Generator)
    assert found == [data.collate(one) for one in batches]


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])


# Breaks if evaluations after a resume draw other numbers than those of a training that was not interrupted, or if the
# loader of one is changed twice, or one without a position is refused.
@pytest.mark.parametrize("workers", [0, 1])
def test_each_evaluation_draws_the_same_numbers(workers: int) -> None:
    def evaluation() -> Any:
        loader: Any = DataLoader(
            OwnNoise(),  # type: ignore[arg-type]
            batch_sampler=[[0, 1], [2]],
            collate_fn=OwnCollate(),
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        for _ in range(2):
            seed_evaluation(loader, seed=7, rank=0)
        return loader

    loader = evaluation()
    first = list(loader)
    assert list(loader) == first == list(evaluation())
    assert isinstance(loader.dataset.dataset, OwnNoise)
    endless: Any = DataLoader(Endless())
    seed_evaluation(endless, seed=7, rank=0)
    assert list(endless) == [1]
