"""What the history of a training costs its loop: `python -m tests.bench.checkpoint.series`.

Prints, in microseconds a step: the call that notes a step with three values, and the difference that the history makes
to a loop of steps of a millisecond, with the thread that hands the rows over beside it. The goal is 10 microseconds.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.examples.stub import Counter
from holdfast_train.series.feed import SeriesFeed

STEPS = 2_000
CALLS = 10_000
ROUNDS = 5
STEP_SECONDS = 0.001
GOAL_MICROSECONDS = 10.0
METRICS = {"accuracy": 0.5, "grad_norm": 1.0}


def note() -> float:
    """Microseconds of a call of the training loop."""
    feed = SeriesFeed(lambda message: True)
    began = time.thread_time()
    for step in range(CALLS):
        feed.note(step, {"loss": 1.5, **METRICS}, 8.0 * step)
    took = time.thread_time() - began
    feed.close()
    return took / CALLS * 1e6


def loop(folder: Path, number: int, *, keeps: bool) -> float:
    """Microseconds of CPU of the training process for a step, with its threads."""
    with Run(counter=Counter(), environment=environment(f"file://{folder}/run-{number}-{keeps}")) as run:
        if not keeps:
            run._measured.series = None
        began = time.process_time()
        for _ in run.steps(STEPS):
            run.report(loss=1.5, samples=8, metrics=METRICS)
            time.sleep(STEP_SECONDS)
        return (time.process_time() - began) / STEPS * 1e6


def main() -> int:
    """0 if the goal is met."""
    call = statistics.median(note() for _ in range(ROUNDS))
    with tempfile.TemporaryDirectory() as name:
        pairs = [(loop(Path(name), n, keeps=True), loop(Path(name), n, keeps=False)) for n in range(ROUNDS)]
    with_history, without = (statistics.median(one) for one in zip(*pairs, strict=True))
    cost = with_history - without
    sys.stdout.write(
        f"a note {call:.2f} us; a step with the history {with_history:.2f} us of CPU, without it {without:.2f} us: "
        f"{cost:.2f} us = {max(call, cost) / GOAL_MICROSECONDS:.2f} of the goal ({GOAL_MICROSECONDS:.0f} us)\n"
    )
    return int(max(call, cost) > GOAL_MICROSECONDS)


if __name__ == "__main__":
    sys.exit(main())
