"""A training with a real DataLoader: workers that draw ahead, noisy samples, and a death in the middle of a step."""

import json
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.support.trainer.exact import start
from tests.support.trainer.inside import settle
from tests.support.trainer.stores import variables
from torch.utils.data import Dataset

from holdfast_protocol.settings import Every

SAMPLES, BATCH, SAVE_EVERY = 50, 12, 4  # an epoch is no whole number of batches


class Noisy(Dataset[tuple[int, float]]):
    """Sample n is n, and a number that three generators have made."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, float]:
        return index, random.random() + float(np.random.random()) + float(torch.rand(()))


@dataclass(frozen=True)
class Attempt:
    """One attempt of a training in `folder`: `ranks` processes that take `micro` samples at a time."""

    folder: Path
    number: int
    ranks: int
    micro: int
    workers: int = 2
    kill_after: int | None = None

    def run(self, to: int) -> dict[int, list[tuple[int, float]]]:
        """Train to step `to`, or be killed in the middle of `kill_after`: the samples of each step, of all ranks."""
        ends = start(self.ranks, _train, self, to)
        wanted = 0 if self.kill_after is None else -signal.SIGKILL
        assert set(ends) == {wanted}, ends
        steps: dict[int, list[tuple[int, float]]] = {}
        for rank in range(self.ranks):
            for line in self.lines(rank):
                steps.setdefault(line["step"], []).extend(tuple(sample) for sample in line["samples"])
        return steps

    def lines(self, rank: int) -> Iterator[dict[str, Any]]:
        """What a rank has written, a step each."""
        return map(json.loads, self.file(rank).read_text().splitlines())

    def file(self, rank: int) -> Path:
        """Where a rank writes."""
        return self.folder / f"attempt-{self.number}-rank-{rank}.jsonl"


def _train(attempt: Attempt, to: int) -> None:
    """In each process. The model is its own random numbers: they have to come back too."""
    from holdfast_train import Run
    from holdfast_train.data.elastic_sampler import ElasticSampler
    from holdfast_train.data.values import Values

    every = {"every": Every(SAVE_EVERY)}
    os.environ.update(variables(f"file://{attempt.folder}/prefix", attempt.number, **every))
    torch.manual_seed(1)
    if attempt.ranks > 1:
        torch.distributed.init_process_group("gloo")
    dataset = Noisy()
    sampler = ElasticSampler(dataset, batch=BATCH, micro_batch=attempt.micro, seed=5)
    loader = sampler.loader(dataset, num_workers=attempt.workers)
    model = Values(dropped=0.0)
    with Run(model=model, sampler=sampler) as run, attempt.file(sampler_rank()).open("w", buffering=1) as file:
        batches = iter(loader)
        for step in run.steps(to):
            settle(run)
            samples: list[tuple[int, float]] = []
            for _ in range(sampler.accumulate):
                numbers, noise = next(batches)
                samples += zip(numbers.tolist(), noise.tolist(), strict=True)
            model.dropped += float(torch.rand(()))
            if attempt.ranks > 1:
                torch.distributed.barrier()  # as gradients do: no rank is a step ahead of another
            file.write(json.dumps({"step": step, "samples": samples, "dropped": model.dropped}) + "\n")
            if step == attempt.kill_after:
                if attempt.ranks > 1:
                    torch.distributed.barrier()
                os.kill(os.getpid(), signal.SIGKILL)
    if attempt.ranks > 1:
        torch.distributed.destroy_process_group()


def sampler_rank() -> int:
    """This process's rank."""
    return int(os.environ.get("RANK", "0"))
