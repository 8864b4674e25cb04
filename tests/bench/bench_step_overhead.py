"""What holdfast_train costs in a step: report and bookkeeping, in a pod that reports to an endpoint over TLS.

    python -m tests.bench.bench_step_overhead

Prints microseconds a step with and without `Run`, their difference, and its ratio to the goal of 0.1 ms. The steps are
empty, so what is measured is all ours; the reporter's threads run beside it and report every 50 ms, 300 times as often
as in a cluster.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support.http.progress_endpoint import serving
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.examples.stub import Counter

STEPS = 20_000
ROUNDS = 5
GOAL_MICROSECONDS = 100.0


def with_run(folder: Path, variables: dict[str, str], number: int) -> float:
    """Microseconds a step."""
    where = environment(f"file://{folder}/run-{number}", **variables)
    with Run(counter=Counter(), environment=where) as run:
        began = time.perf_counter()
        for _ in run.steps(STEPS):
            run.report(loss=1.5, samples=8)
        return (time.perf_counter() - began) / STEPS * 1e6


def without() -> float:
    """Microseconds a step."""
    began = time.perf_counter()
    for _ in range(STEPS):
        pass
    return (time.perf_counter() - began) / STEPS * 1e6


def measure() -> dict[str, float]:
    """Medians of ROUNDS rounds, in microseconds a step, and the ratio of the difference to the goal."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as endpoint:
        endpoint.every = 0.05
        ours = statistics.median(with_run(Path(name), endpoint.variables, n) for n in range(ROUNDS))
    bare = statistics.median(without() for _ in range(ROUNDS))
    return {"with": ours, "without": bare, "overhead": ours - bare, "ratio": (ours - bare) / GOAL_MICROSECONDS}


def main() -> int:
    """0 if the goal is met."""
    found = measure()
    sys.stdout.write(
        f"step with Run {found['with']:.2f} us, empty loop {found['without']:.2f} us, "
        f"overhead {found['overhead']:.2f} us = {found['ratio']:.3f} of the goal ({GOAL_MICROSECONDS:.0f} us)\n"
    )
    return 0 if found["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
