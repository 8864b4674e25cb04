"""A trainer without torch, for tests. It steps, saves, leaves and fails on demand, with the code of a real trainer."""

import argparse
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast_train import Run


class Counter:
    """A sum that shows if a step was lost or done twice: after n steps it is n * (n + 1) / 2."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, step: int) -> None:
        """Count the step with number `step`, from 0."""
        self.total += step + 1

    def state_dict(self) -> dict[str, Any]:
        """The sum."""
        return {"total": self.total}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the sum."""
        self.total = int(state["total"])


class SlowBytes:
    """A state of `size` bytes whose `state_dict` takes `seconds`."""

    def __init__(self, size: int, seconds: float) -> None:
        self._data = bytes(size)
        self._seconds = seconds

    def state_dict(self) -> dict[str, Any]:
        """The bytes, after `seconds`."""
        time.sleep(self._seconds)
        return {"data": self._data}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over the bytes."""
        self._data = bytes(state["data"])


def _batches(seconds: float) -> Iterator[int]:
    """Numbers from 0 on, each of which takes `seconds`."""
    for number in itertools.count():
        time.sleep(seconds)
        yield number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m holdfast_train.examples.stub", description=__doc__)
    parser.add_argument("--steps", type=int, default=None, help="the goal (default: HOLDFAST_GOAL_STEPS, or 200)")
    parser.add_argument("--start-seconds", type=float, default=0.0, help="seconds before the run starts")
    parser.add_argument("--step-seconds", type=float, default=0.05, help="seconds of a step")
    parser.add_argument("--data-seconds", type=float, default=None, help="also wait so long for data in each step")
    parser.add_argument("--save-seconds", type=float, default=0.0, help="extra seconds of a save")
    parser.add_argument("--bytes", type=int, default=1024, help="bytes of the state")
    parser.add_argument("--fail-at", type=int, default=None, metavar="STEP", help="raise an exception at this step")
    parser.add_argument("--fail-attempts", type=int, default=None, metavar="N", help="fail only in attempts up to N")
    parser.add_argument("--exit-at", type=int, default=None, metavar="STEP", help="exit at this step without a verdict")
    parser.add_argument("--exit-code", type=int, default=1, help="exit code of --exit-at")
    parser.add_argument("--stop-at", type=int, default=None, metavar="STEP", help="leave the loop at this step")
    parser.add_argument("--hang-at", type=int, default=None, metavar="STEP", help="stop making progress at this step")
    parser.add_argument("--leak-memory", type=int, default=0, metavar="MIB", help="MiB of memory to leak at each step")
    parser.add_argument("--accuracy", action="store_true", help="report an accuracy too")
    parser.add_argument("--ignore-sigterm", action="store_true", help="ignore SIGTERM, but not orders")
    parser.add_argument("--quiet", action="store_true", help="print no line at each step")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stub. The exit code is 0 unless an option asks for another."""
    options = _parser().parse_args(argv)
    counter, state = Counter(), SlowBytes(options.bytes, options.save_seconds)
    leaked: list[bytearray] = []
    attempt = int(os.environ.get("HOLDFAST_ATTEMPT", "1"))
    failing = options.fail_attempts is None or attempt <= options.fail_attempts
    goal = options.steps or (None if os.environ.get("HOLDFAST_GOAL_STEPS") else 200)
    time.sleep(options.start_seconds)
    with Run(counter=counter, state=state) as run:
        if options.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        batches = None if options.data_seconds is None else iter(run.waiting(_batches(options.data_seconds)))
        for step in run.steps(goal):
            if batches is not None:
                next(batches)
            if step == options.fail_at and failing:
                raise RuntimeError(f"the stub was told to fail at step {step}")
            if step == options.exit_at and failing:
                sys.stderr.write(f"the stub was told to exit at step {step}\n")
                os._exit(options.exit_code)
            if step == options.stop_at:
                break
            while step == options.hang_at:
                time.sleep(1)
            if options.leak_memory:
                leaked.append(bytearray(b"\1" * (options.leak_memory << 20)))
            time.sleep(options.step_seconds)
            counter.add(step)
            loss = 4.0 / (1.0 + 0.05 * step)
            run.report(loss=loss, samples=8, metrics={"accuracy": 1 - loss / 4} if options.accuracy else None)
            if not options.quiet:
                sys.stdout.write(f"step {step + 1} loss {loss:.4f}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{'left' if run.left else 'done'} at step {run.step}, total {counter.total}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
