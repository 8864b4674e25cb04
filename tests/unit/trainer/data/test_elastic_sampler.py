"""ElasticSampler: one order of the samples for any number of ranks, and a position that counts trained steps."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer.stores import environment
from torch.utils.data import Dataset

from holdfast_train import Run
from holdfast_train.data.elastic_sampler import ElasticSampler, check_share
from holdfast_train.data.seeded import Index
from holdfast_train.errors import StateError


class Numbers(Dataset[int]):
    """Sample n is the number n."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index

    def fingerprint(self) -> str:
        return f"numbers-{self.count}"


def divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


@st.composite
def trainings(draw: st.DrawFn) -> tuple[int, int, int, list[tuple[int, int | None, int, int]]]:
    """Samples, batch, seed; and attempts: ranks, micro-batch, trained steps, batches that were drawn ahead."""
    batch = draw(st.integers(1, 24))
    samples = draw(st.integers(batch, 60))
    attempts = []
    for _ in range(draw(st.integers(1, 6))):
        ranks = draw(st.sampled_from(divisors(batch)))
        micro = draw(st.none() | st.sampled_from(divisors(batch // ranks)))
        attempts.append((ranks, micro, draw(st.integers(0, 6)), draw(st.integers(0, 9))))
    return samples, batch, draw(st.integers(0, 3)), attempts


@given(trainings())
def test_any_sequence_of_world_sizes_sees_the_samples_of_one_uninterrupted_run(
    training: tuple[int, int, int, list[tuple[int, int | None, int, int]]],
) -> None:
    samples, batch, seed, attempts = training
    state: str | None = None
    seen: list[int] = []
    for ranks, micro, steps, ahead in attempts:
        world = [
            ElasticSampler(samples, batch=batch, micro_batch=micro, seed=seed, rank=rank, ranks=ranks)
            for rank in range(ranks)
        ]
        drawn: list[list[list[int]]] = []
        begun = 0
        for sampler in world:
            if state is not None:
                sampler.load_state_dict(json.loads(state))
            begun = sampler.step
            drawn.append(list(islice(iter(sampler), steps * sampler.accumulate + ahead)))
        for step in range(steps):
            for sampler, batches in zip(world, drawn, strict=True):
                pieces = batches[step * sampler.accumulate : (step + 1) * sampler.accumulate]
                assert {len(piece) for piece in pieces} == {micro or batch // ranks}
                seen += [index for piece in pieces for index in piece]
                sampler.trained(begun + step + 1)
        states = {json.dumps(sampler.state_dict()) for sampler in world}
        assert len(states) == 1  # the state is replicated: one rank may save it for all
        state = states.pop()
    whole = ElasticSampler(samples, batch=batch, seed=seed, rank=0, ranks=1)
    assert seen == [index for indices in islice(iter(whole), len(seen) // batch) for index in indices]
    for start in range(0, len(seen) - samples + 1, samples):
        assert sorted(seen[start : start + samples]) == list(range(samples))


def test_epochs() -> None:
    sampler = ElasticSampler(10, batch=4)
    assert [sampler.steps(epochs) for epochs in (0, 1, 2, 4)] == [0, 3, 5, 10]
    batches = list(islice(iter(sampler), 5))
    row = [index for batch in batches for index in batch]
    assert sorted(row[:10]) == sorted(row[10:]) == list(range(10))
    assert row[:10] != row[10:]
    epochs = []
    for step in range(1, 6):
        sampler.trained(step)
        epochs.append(sampler.epoch)
    assert epochs == [0, 0, 1, 1, 2]


def test_it_works_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from holdfast_train import ElasticSampler, Values\n"
        "from holdfast_train.format import program\n"
        "print(ElasticSampler(9, batch=3, seed=2).indices(4), len(program.describe().words))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(str([int(index) for index in ElasticSampler(9, batch=3, seed=2).indices(4)]))


def test_indices_are_ints_for_a_data_set() -> None:
    (index,) = ElasticSampler(5, batch=1, seed=3).indices(7)
    assert isinstance(index, Index)
    assert index.place == 7
    assert list(range(5))[index] == index
    assert json.dumps(index) == str(int(index))


@pytest.mark.parametrize(
    ("batch", "micro", "ranks", "words"),
    [
        (512, None, 3, "3 ranks cannot share a global batch of 512 samples evenly; 1, 2, 4, 8, 16"),
        (512, 64, 16, "512 samples in micro-batches of 64 evenly; 1, 2, 4, 8 ranks can"),
        (7, None, 2, "1, 7 ranks can"),
        (720720, None, 17, "the nearest of 240"),
        (512, 100, 2, "cannot be cut into whole micro-batches of 100"),
    ],
)
def test_world_sizes_that_cannot_share_a_batch(batch: int, micro: int | None, ranks: int, words: str) -> None:
    with pytest.raises(StateError) as error:
        check_share(batch, micro, ranks)
    assert words in str(error.value)
    with pytest.raises(StateError):
        ElasticSampler(10**9, batch=batch, micro_batch=micro, rank=0, ranks=ranks)


def test_rank_and_ranks_come_from_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = ElasticSampler(100, batch=12)
    assert len(sampler.indices(0)) == 12
    whole = sampler.indices(3)
    monkeypatch.setenv("WORLD_SIZE", "3")  # set after the sampler was created
    monkeypatch.setenv("RANK", "2")
    assert sampler.indices(3) == whole[8:]
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(StateError, match="5 ranks cannot share"):
        iter(sampler)


@pytest.mark.parametrize(("rank", "ranks"), [(0, None), (None, 2), (2, 2), (-1, 2)])
def test_rank_without_ranks(rank: int | None, ranks: int | None) -> None:
    with pytest.raises(StateError, match="set both or none"):
        ElasticSampler(100, batch=12, rank=rank, ranks=ranks)


@pytest.mark.parametrize(("samples", "batch"), [(3, 4), (0, 1), (5, 0)])
def test_impossible_batches(samples: int, batch: int) -> None:
    with pytest.raises(StateError, match=f"batch is {batch}; allowed: 1 to {samples}"):
        ElasticSampler(samples, batch=batch)


def test_another_order_is_refused() -> None:
    state = ElasticSampler(100, batch=10, seed=1).state_dict()
    for wrong in ({"seed": 2}, {"batch": 20}, {"order": 0}):
        with pytest.raises(StateError, match="checkpoint"):
            ElasticSampler(100, batch=10, seed=1).load_state_dict({**state, **wrong})


def test_one_warning_for_other_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for attempt, samples in enumerate((100, 101), start=1):
        where = environment(f"file://{tmp_path}/prefix", attempt)
        with Run(sampler=ElasticSampler(samples, batch=10), environment=where) as run:
            run.advance()
            assert run.save()
            run.left = True
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "DataChanged" in line]
    assert warning.startswith("holdfast: DataChanged: sampler/samples is 101")


def test_the_fingerprint_includes_that_of_the_data() -> None:
    assert ElasticSampler(100, batch=10, seed=1).fingerprint() == {"seed": "1", "batch": "10", "samples": "100"}
    assert ElasticSampler(Numbers(100), batch=10).fingerprint()["data"] == "numbers-100"


# Mistakes in a training loop.


def test_a_loader_started_before_the_resume_is_refused() -> None:
    sampler = ElasticSampler(100, batch=10)
    early = iter(sampler.loader(Numbers(100)))
    sampler.load_state_dict({**sampler.state_dict(), "step": 4})
    with pytest.raises(StateError, match=r"inside the `with Run"):
        next(early)
    again = next(iter(sampler.loader(Numbers(100))))
    assert again.tolist() == sampler.indices(4)


def test_too_few_batches_in_a_step_are_an_error() -> None:
    sampler = ElasticSampler(1000, batch=12, micro_batch=3)
    batches = iter(sampler)
    with pytest.raises(StateError, match="on this rank 4 batches of the loader"):
        for step in range(100):
            next(batches)  # one of four
            sampler.trained(step + 1)


# Breaks if a training that goes on with another sampler is taken for one that takes too few batches in a step.
def test_stages_with_samplers_of_their_own() -> None:
    easy, hard = ElasticSampler(100, batch=10), ElasticSampler(60, batch=20, seed=1)
    early = iter(easy.loader(Numbers(100)))
    for step in range(3):
        assert next(early).tolist() == easy.indices(step)
        easy.trained(step + 1), hard.trained(step + 1)
    for step, batch in enumerate(islice(hard.loader(Numbers(60)), 3), 3):
        assert batch.tolist() == hard.indices(step)
        easy.trained(step + 1), hard.trained(step + 1)
    with pytest.raises(StateError, match="the step before step 4 took its batch from another sampler"):
        next(early)
    again = iter(easy.loader(Numbers(100)))
    assert next(again).tolist() == easy.indices(6)
    with pytest.raises(StateError, match="was asked for the batches of only 7"):
        easy.trained(7), easy.trained(8)


@pytest.mark.parametrize("loader_first", [False, True])
def test_zip_in_either_order(loader_first: bool) -> None:
    """The batch that zip has drawn, but the loop has not trained, does not count."""
    sampler = ElasticSampler(100, batch=10)
    seen: list[list[int]] = []

    def steps() -> Any:
        for step in range(sampler.step, sampler.step + 3):
            yield step
            sampler.trained(step + 1)

    for _ in range(2):
        loader = sampler.loader(Numbers(100))
        pairs = zip(loader, steps(), strict=False) if loader_first else zip(steps(), loader, strict=False)
        seen += [(pair[0] if loader_first else pair[1]).tolist() for pair in pairs]
    assert seen == [sampler.indices(step) for step in range(6)]


def test_a_restarted_loader_goes_on() -> None:
    """`next(iter(loader))` in each step is slow, but correct."""
    sampler = ElasticSampler(100, batch=10)
    loader = sampler.loader(Numbers(100))
    for step in range(5):
        assert next(iter(loader)).tolist() == sampler.indices(step)
        sampler.trained(step + 1)


def test_a_loader_does_not_change_the_random_numbers_of_training() -> None:
    sampler = ElasticSampler(100, batch=10)
    before = torch.get_rng_state()
    next(iter(sampler.loader(Numbers(100))))
    assert torch.equal(torch.get_rng_state(), before)


class Shard:
    """As accelerate's BatchSamplerShard: every second batch of `batches`, which it asks for its size."""

    def __init__(self, batches: Any, ask: bool) -> None:
        self.batches = batches
        if ask:
            self.batch_size = getattr(batches, "batch_size", None)

    def __iter__(self) -> Any:
        return (batch for number, batch in enumerate(self.batches) if number % 2 == 0)


def test_a_library_that_shares_the_batches_once_more_is_refused_at_once() -> None:
    sampler = ElasticSampler(64, batch=8, rank=1, ranks=2)
    with pytest.raises(StateError, match=r"gives each rank its own share .* do not pass the loader to prepare\(\)"):
        Shard(sampler, ask=True)
    assert ElasticSampler(64, batch=8, rank=0, ranks=1).batch_size == 8
    assert ElasticSampler(64, batch=8, micro_batch=2, rank=0, ranks=1).batch_size == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_draws_more_than_is_trained_is_noticed(workers: int) -> None:
    data = Numbers(1000)
    sampler = ElasticSampler(data, batch=8, rank=0, ranks=2)
    loader = torch.utils.data.DataLoader(data, batch_sampler=Shard(sampler, ask=False), num_workers=workers)
    with pytest.raises(StateError, match="a library has shared the batches among the ranks once more"):
        for step, _ in enumerate(islice(loader, 100), 1):
            sampler.trained(step)


def test_a_loader_that_draws_ahead_is_not() -> None:
    """Workers, and a prefetcher that fills its queue while the first steps are trained."""
    data = Numbers(1000)
    sampler = ElasticSampler(data, batch=8, rank=0, ranks=2)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=2, prefetch_factor=10)
    for restart in range(2):
        for step, _ in enumerate(islice(loader, 100), 100 * restart + 1):
            sampler.trained(step)
    drawn = iter(sampler)
    for step in range(201, 261):
        next(drawn), next(drawn)
        sampler.trained(step)


# Breaks if data that a rollback passes over is trained, or if a loader that has drawn it goes on.
def test_data_is_passed_over() -> None:
    whole = ElasticSampler(100, batch=4, rank=0, ranks=1)
    sampler = ElasticSampler(100, batch=4, rank=0, ranks=1)
    sampler.go_to(5)
    drawn = iter(sampler)
    assert next(drawn) == whole.indices(5)
    sampler.skip_data(3)
    with pytest.raises(StateError, match="before the checkpoint put the sampler"):
        next(drawn)
    assert sampler.indices(5) == whole.indices(8)
    assert next(iter(sampler)) == whole.indices(8)
    sampler.skip_data(2)
    assert sampler.skipped == 3, "what was passed over does not come back"
    assert ElasticSampler(100, batch=4, rank=0, ranks=1).epoch == 0
    sampler.go_to(22)
    assert sampler.epoch == 1
    other = ElasticSampler(100, batch=4, rank=0, ranks=1)
    other.load_state_dict(sampler.state_dict())
    assert (other.step, other.skipped) == (22, 3)
    whole.go_to(22)
    assert "skipped" not in whole.state_dict(), "a state without it has the form that it always had"
