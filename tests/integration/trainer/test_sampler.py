"""ElasticSampler with torch's DataLoader: real workers that draw ahead, and real processes that are killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.trainer.elastic import BATCH, SAMPLES, SAVE_EVERY, Attempt, Noisy
from torch.utils.data import DataLoader

from holdfast_train.data.elastic_sampler import ElasticSampler
from holdfast_train.errors import StateError

STEPS = 20


@pytest.mark.thorough
def test_any_world_size_sees_the_samples_of_one_uninterrupted_run(tmp_path: Path) -> None:
    """2 -> 1 -> 3 processes, each killed in a step, with batches drawn ahead; the noise of samples is the same."""
    folders = [tmp_path / name for name in ("whole", "moved")]
    for folder in folders:
        folder.mkdir()
    whole = Attempt(folders[0], 1, ranks=1, micro=12, workers=0).run(STEPS)
    first = Attempt(folders[1], 1, ranks=2, micro=3, kill_after=6).run(STEPS)
    second = Attempt(folders[1], 2, ranks=1, micro=4, kill_after=13).run(STEPS)
    third = Attempt(folders[1], 3, ranks=3, micro=2).run(STEPS)
    assert [(min(part), max(part)) for part in (first, second, third)] == [(0, 6), (4, 13), (12, 19)]
    for part in (first, second, third):
        assert part == {step: whole[step] for step in part}  # also steps that were lost and trained again
    row = [number for step in range(STEPS) for number, _ in whole[step]]
    assert sorted(row[:SAMPLES]) == list(range(SAMPLES))
    assert sorted(row[SAMPLES : 2 * SAMPLES]) == list(range(SAMPLES))


def test_a_resume_on_the_same_shape_is_exact(tmp_path: Path) -> None:
    """The random numbers of training are the same too: a restart of the loader draws none of them."""
    folders = [tmp_path / name for name in ("whole", "killed")]
    for folder in folders:
        folder.mkdir()
    whole = Attempt(folders[0], 1, ranks=1, micro=6)
    whole.run(STEPS)
    Attempt(folders[1], 1, ranks=1, micro=6, kill_after=9).run(STEPS)
    resumed = Attempt(folders[1], 2, ranks=1, micro=6)
    resumed.run(STEPS)
    assert list(resumed.lines(0)) == list(whole.lines(0))[9 // SAVE_EVERY * SAVE_EVERY :]


def noise(sampler: ElasticSampler, batches: int, **options: Any) -> list[list[float]]:
    """The noise of some batches."""
    loader = iter(sampler.loader(Noisy(), **options))
    return [next(loader)[1].tolist() for _ in range(batches)]


def test_the_noise_depends_on_the_sample_alone() -> None:
    sampler = ElasticSampler(SAMPLES, batch=BATCH, seed=1)
    alone = noise(sampler, 9)
    assert len({value for batch in alone for value in batch}) == 9 * BATCH  # it differs between epochs
    assert noise(sampler, 9, num_workers=1) == noise(sampler, 9, num_workers=2, persistent_workers=True) == alone
    assert noise(ElasticSampler(SAMPLES, batch=BATCH, seed=2), 9) != alone
    before = torch.get_rng_state()
    noise(sampler, 3)
    assert torch.equal(torch.get_rng_state(), before)


def seeds(step: int, rank: int, workers: int = 2) -> list[int]:
    """The seeds of a loader's workers, with a data set that is not wrapped."""
    sampler = ElasticSampler(SAMPLES, batch=BATCH, rank=rank, ranks=2)
    sampler.load_state_dict({**sampler.state_dict(), "step": step})
    loader: Any = DataLoader(
        SeedOfWorker(), batch_sampler=sampler, generator=sampler.generator(), num_workers=workers, collate_fn=set
    )
    batches = iter(loader)
    return [seed for _ in range(workers) for seed in next(batches)]


class SeedOfWorker(Noisy):
    """Each sample is the seed of the worker that loads it."""

    def __getitem__(self, index: int) -> Any:
        return torch.initial_seed()


def test_seeds_of_workers_depend_on_step_rank_and_worker() -> None:
    found = [seeds(step, rank) for step in (0, 7) for rank in (0, 1)]
    assert len({seed for pair in found for seed in pair}) == 8
    assert seeds(7, 1) == found[3]  # as in another process that resumes at this step


def plain(sampler: ElasticSampler) -> Any:
    return DataLoader(Noisy(), batch_sampler=sampler)


def wrapped(sampler: ElasticSampler) -> Any:
    return DataLoader(sampler.seeded(Noisy()), batch_sampler=sampler)


@pytest.mark.parametrize("loader", [plain, wrapped])
def test_a_loader_without_the_generator_draws_from_the_global_one(loader: Callable[..., Any]) -> None:
    """The documentation warns of this. If torch changes it, the warning can be removed."""
    before = torch.get_rng_state()
    iter(loader(ElasticSampler(SAMPLES, batch=BATCH)))
    assert not torch.equal(torch.get_rng_state(), before)


def test_a_seeded_data_set_needs_the_sampler() -> None:
    seeded = ElasticSampler(SAMPLES, batch=BATCH).seeded(Noisy())
    assert len(seeded) == SAMPLES
    with pytest.raises(StateError, match="batch_sampler=sampler"):
        next(iter(DataLoader(seeded, batch_size=2)))
