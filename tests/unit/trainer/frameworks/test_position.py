import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, Sampler

from holdfast_train.errors import StateError
from holdfast_train.frameworks.position import Position, Shape

EPOCH = 5  # batches


class Own(Sampler[int]):
    """An order from a generator of its own, which goes on from epoch to epoch; or one that counts its epochs."""

    def __init__(self, kind: str) -> None:
        source = random.SystemRandom if kind == "hidden" else random.Random
        self.sources: Any = [{"order": random.Random(3)}] if kind == "nested" else source
        self.source = random.Random(3) if kind == "own" else None

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        source = self.source or (self.sources() if callable(self.sources) else self.sources[0]["order"])
        return iter(source.sample(range(10), 10))


def loader(kind: str) -> Any:
    if kind == "global":
        return DataLoader(range(10), batch_size=2, shuffle=True)  # type: ignore[arg-type]
    if kind == "loader's":
        return DataLoader(range(10), batch_size=2, shuffle=True, generator=torch.Generator())  # type: ignore[arg-type]
    if kind == "workers":
        return DataLoader(range(10), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True)  # type: ignore[arg-type]
    if kind == "below":
        sampler = RandomSampler(range(10), generator=torch.Generator())
        return DataLoader(range(10), batch_sampler=BatchSampler(sampler, 2, drop_last=False))  # type: ignore[arg-type]
    return DataLoader(range(10), batch_size=2, sampler=Own(kind))  # type: ignore[arg-type]


class Grown(Dataset[int]):
    """The samples are the number of the epoch."""

    epoch = -1

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> int:
        return self.epoch


class OfEpoch(Grown):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


# Breaks if workers that stay keep the data set of an earlier epoch, which those after a resume do not have, or if
# workers whose data set has no epochs are made once more.
@pytest.mark.parametrize(("kind", "epochs"), [(OfEpoch, [0, 1]), (Grown, [-1, -1])])
def test_workers_have_the_data_set_of_the_epoch(kind: type[Grown], epochs: list[int]) -> None:
    data = kind()
    loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)
    position = Position(loader, seed=0, rank=0)
    found, iterators = [], set()
    for epoch in range(2):
        if isinstance(data, OfEpoch):
            data.set_epoch(epoch)
        position.begin(epoch)
        found += [batch[0].item() for batch in loader]
        iterators.add(loader._iterator)
    assert found == epochs
    assert len(iterators) == (1 if kind is Grown else 2)


def passed_over(found: Any, position: Position) -> list[list[int]]:
    """The batches of an epoch that are left, as a library reads them after a resume."""
    return [batch.tolist() for number, batch in enumerate(found) if number >= position.batches]


def train(
    kind: str, resume: dict[str, Any] | None = None, *, stop: int = 8, skip: bool = False
) -> tuple[list[list[int]], dict[str, Any]]:
    """The batches of two epochs, and the position after `stop` of them. `skip`: the loader passes over batches."""
    random.seed(1)
    torch.manual_seed(1 if resume is None else 2)  # of the process: not the order of the checkpoint
    found = loader(kind)
    position = Position(found, seed=0, rank=0)
    state: dict[str, Any] = {}
    batches: list[list[int]] = []
    first = 0
    if resume is not None:
        position.load_state_dict(resume)
        first = position.epoch
    for epoch in range(first, 2):
        if resume is not None and epoch == first:
            position.begin_again(skip=skip)
            batches += [batch.tolist() for batch in found] if skip else passed_over(found, position)
            position.check()
            continue
        position.begin(epoch)
        for batch in found:
            batches.append(batch.tolist())
            position.batches += 1
            if len(batches) == stop:
                state = position.state_dict()
    return batches, state


# Breaks if what decides the order of an epoch is not in the state, or is put back after the order is drawn.
# A loader that makes new workers draws a number, and one that keeps its workers draws none.
@pytest.mark.parametrize("kind", ["global", "loader's", "below", "own", "nested", "workers"])
@pytest.mark.parametrize(("stop", "skip"), [(2, False), (8, False), (8, True)])
def test_a_resume_reads_the_rest_of_the_epoch(kind: str, stop: int, skip: bool) -> None:
    whole, state = train(kind, stop=stop)
    rest, _ = train(kind, state, skip=skip)
    assert rest[: EPOCH - stop % EPOCH] == whole[stop:][: EPOCH - stop % EPOCH]
    assert sorted(number for batch in whole[:EPOCH] for number in batch) == list(range(10))


# Breaks if an order that changed is read on.
def test_another_order_is_refused() -> None:
    _, state = train("hidden")
    with pytest.raises(StateError, match=r"epoch 1 come in another order.*BatchOrder in BatchSampler in Own"):
        train("hidden", state)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([1])


# Breaks if a loader without a position is taken.
@pytest.mark.parametrize(
    ("given", "message"),
    [(DataLoader(Endless()), "IterableDataset"), (DataLoader([1, 2], batch_size=None), "without a batch sampler")],  # type: ignore[arg-type]
)
def test_a_loader_without_a_position_is_refused(given: Any, message: str) -> None:
    with pytest.raises(StateError, match=message):
        Position(given, seed=0, rank=0)


# Breaks if a change is accepted, or if a number that an older checkpoint lacks is a change.
def test_a_shape_names_each_change() -> None:
    state = Shape(processes=2, samples=10).state_dict()
    Shape(processes=2, samples=10, batches_of_a_step=3).load_state_dict(state)
    with pytest.raises(StateError, match="processes was 2 and is 4; samples was 10 and is 11: samples would"):
        Shape(processes=4, samples=11).load_state_dict(state)
