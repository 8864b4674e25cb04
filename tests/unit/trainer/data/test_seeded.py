"""Random numbers of data loading that depend on the sample alone."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from holdfast_train import ElasticSampler, Run
from holdfast_train.data.seeded import Index, SeededDataset
from holdfast_train.errors import StateError


class Noisy:
    """Sample n is n, and a random number."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, random.random()


def test_random_numbers_depend_on_seed_and_place() -> None:
    seeded = SeededDataset(Noisy(), seed=1)
    first = seeded[Index(3, 3)]
    assert first[0] == 3
    assert seeded[Index(3, 3)] == first
    assert seeded[Index(3, 13)][1] != first[1]  # in the next epoch
    assert SeededDataset(Noisy(), seed=2)[Index(3, 3)][1] != first[1]


def test_the_generators_of_training_do_not_change() -> None:
    before = random.getstate()
    assert len(SeededDataset(Noisy(), seed=1)[Index(0, 0)]) == 2
    assert random.getstate() == before


# Breaks if data that a thread fetches ahead takes the random numbers of the training.
@pytest.mark.parametrize("workers", [0, 1])
def test_another_thread_than_that_of_the_training_reads_with_workers_alone(workers: int) -> None:
    sampler = ElasticSampler(Noisy(), batch=2)
    loader = sampler.loader(Noisy(), num_workers=workers)
    with ThreadPoolExecutor(1) as pool, Run(sampler=sampler):
        fetched = pool.submit(next, iter(loader))
        if workers:
            assert len(fetched.result()) == 2
        else:
            with pytest.raises(StateError, match="give the loader num_workers=1 or more"):
                fetched.result()
            assert len(next(iter(loader))) == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(next, iter(sampler.loader(Noisy()))).result()


class Own(Noisy):
    """The same, with a generator that is made for the first sample."""

    rng: random.Random | None = None

    def __getitem__(self, index: int) -> tuple[int, float]:
        self.rng = self.rng or random.Random(1)
        return index, self.rng.random()

    def collate(self, samples: list[dict[str, float]]) -> list[float]:
        """Takes the values out of the samples."""
        assert self.rng is not None
        return [*(sample.pop("value") for sample in samples), self.rng.random()]


def test_a_generator_of_the_data_set_depends_on_the_place_alone() -> None:
    """Breaks if a resume begins the numbers of such a generator again."""
    seeded = SeededDataset(Own(), seed=1)
    row = [seeded[Index(n, n)] for n in range(4)]
    assert len(set(row)) == 4
    assert SeededDataset(Own(), seed=1)[Index(3, 3)] == row[3]


def test_a_generator_of_the_collate_function_depends_on_the_batch_alone() -> None:
    """Breaks if a resume begins its numbers again, or if the function is given samples that it has emptied."""

    def batch(seeded: SeededDataset, *places: int) -> list[float]:
        late = Own()
        late.rng = random.Random(5)
        return seeded.collate(late.collate)([{"value": seeded[Index(n, n)][1]} for n in places])  # type: ignore[no-any-return]

    seeded = SeededDataset(Noisy(), seed=1)
    batch(seeded, 0, 1)
    second = batch(seeded, 2, 3)
    assert batch(SeededDataset(Noisy(), seed=1), 2, 3) == second
    assert batch(seeded, 4, 3) != second


def test_a_data_set_without_positions_is_refused() -> None:
    class Endless(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    with pytest.raises(StateError, match="Endless is an IterableDataset"):
        SeededDataset(Endless(), seed=1)


def test_an_index_without_a_place_is_refused() -> None:
    with pytest.raises(StateError, match="index 3 does not come from an ElasticSampler"):
        SeededDataset(Noisy(), seed=1)[3]  # type: ignore[index]
