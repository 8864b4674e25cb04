"""Trainings whose guard for losses is on in every second step: `python -m tests.bench.figures.guard_cost TRAININGS`.

Prints one JSON line: by how many percent the guard makes a step longer (the median of all trainings). Steps with it and
without it take turns, because a machine may become slower or faster between two trainings.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

import torch
from tests.support.trainer.stores import environment

from holdfast_train import Run

STEPS = 1000
SIZE, BATCH = 1024, 32


def train(folder: Path) -> tuple[float, float]:
    """The median milliseconds of a step of a small training, with the guard and without it."""
    model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.Tanh(), torch.nn.Linear(SIZE, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, SIZE)
    taken: tuple[list[float], list[float]] = ([], [])
    where = environment(f"file://{folder}", non_finite="Rollback")
    with Run(model=model, environment=where) as run:
        last = perf_counter_ns()
        for step in run.steps(STEPS):
            now = perf_counter_ns()
            taken[step % 2].append((now - last) / 1e6)  # the step that has just been counted
            last = now
            run._guard.start(step, is_on=step % 2 == 1)
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss=loss, samples=BATCH)
    return statistics.median(taken[0]), statistics.median(taken[1])


def main() -> None:
    """Measure."""
    trainings, percents, bare = int(sys.argv[1]), [], []
    with tempfile.TemporaryDirectory(prefix="hf-guard-") as folder:
        for number in range(trainings):
            guarded, without = train(Path(folder) / str(number))
            bare.append(without)
            percents.append((guarded / without - 1) * 100)
    quarters = statistics.quantiles(percents, n=4)
    print(
        json.dumps(
            {
                "trainings": trainings,
                "steps": STEPS,
                "milliseconds": statistics.median(bare),
                "percent": statistics.median(percents),
                "quarters": [quarters[0], quarters[2]],
            }
        )
    )


if __name__ == "__main__":
    main()
