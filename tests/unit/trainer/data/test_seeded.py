"""Random numbers of data loading that depend on the sample alone."""

import random

import pytest

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


def test_an_index_without_a_place_is_refused() -> None:
    with pytest.raises(StateError, match="index 3 does not come from an ElasticSampler"):
        SeededDataset(Noisy(), seed=1)[3]  # type: ignore[index]
