"""A loop that does almost nothing, with and without holdfast_train: `python -m tests.bench.step_overhead STEPS`.

Prints one JSON line. Run it with a pod's environment.
"""

import json
import sys
from time import perf_counter_ns

import torch

import holdfast_train
from holdfast_train.environment import Environment


def work(weight: torch.Tensor) -> torch.Tensor:
    """Something that gives a loss."""
    return weight * 0.5


def main() -> None:
    """Measure both loops, the bare one first."""
    steps = int(sys.argv[1])
    model = torch.nn.Linear(8, 8)
    weight = torch.ones(())
    if Environment.read() is None:
        raise SystemExit("HOLDFAST_JOB is not set: this is measured with a pod's environment")
    started = perf_counter_ns()
    for _ in range(steps):
        work(weight)
    bare = perf_counter_ns() - started
    taken = []
    with holdfast_train.Run(model=model) as run:
        last = started = perf_counter_ns()
        for _ in run.steps(steps):
            run.report(loss=work(weight), samples=32)
            now = perf_counter_ns()
            taken.append(now - last)
            last = now
        whole = perf_counter_ns() - started
    taken.sort()
    print(
        json.dumps(
            {
                "steps": steps,
                "eachMilliseconds": whole / steps / 1e6,
                "bareMilliseconds": bare / steps / 1e6,
                "p99": taken[int(0.99 * (steps - 1))] / 1e6,
            }
        )
    )


if __name__ == "__main__":
    main()
