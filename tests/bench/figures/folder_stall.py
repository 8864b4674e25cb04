"""What the process of checkpoint.folder adds to a step of a program that knows nothing of Holdfast.

In one training, that process is stopped and continued in turns. So steps with it and without it are of the same
training, some seconds apart: two trainings differ by more than what is measured. It is a turn when the program has
written a save: the process finds that save, commits it, and goes on looking until the next one is there.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil
from tests.bench.goals import Measured
from tests.support import guard
from tests.support.trainer.folders import pod
from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

ROOT: Final = Path(__file__).parents[3]
WRITER: Final = "holdfast_train.folder.writer"
MOST_STEPS: Final = 1_000_000
LONGEST: Final = 30  # seconds until a training begins, or ends
SAVE_STEPS: Final = 400  # some seconds: a folder is committed when it has been quiet for two

Window = tuple[int, int]  # its begin and its end, in nanoseconds of the clock of all processes


async def measure(quick: bool) -> list[Measured]:
    """The median over windows of time of what the process adds to the mean step of a window without it.

    Of a window it is the mean: an upload is beside some of its steps, and a median would not see it.
    """
    return await asyncio.to_thread(_measure, 2 if quick else 4)


def _measure(count: int) -> list[Measured]:
    with guard.temporary_folder("hf-folder-") as place, _training(place) as writer:
        before = _records(place)
        windows, share = _turns(writer, place / "outputs", count)
        commits = _records(place) - before
        begun = _end(place)
    if commits < count:
        raise RuntimeError(f"the process committed {commits} times in {count} windows")
    found = [_mean_step(begun, window) for window in windows]
    return [_result(found[::2], found[1::2], share)]


def _records(place: Path) -> int:
    """The number of the newest record in the log of commits."""
    return max((int(path.stem) for path in (place / "stored").rglob("log/*.json")), default=0)


def _result(without: list[float], beside: list[float], share: float) -> Measured:
    """Each window with the process is between two without it. Half of the spread is the limit: what is not known.

    A median below 0 stays as it is: it says that the machine changed by more than what is measured.
    `share`: of a core, which the process takes.
    """
    around = [(one + other) / 2 for one, other in pairwise(without)]
    percents = sorted(100 * (one / other - 1) for one, other in zip(beside, around, strict=True))
    middle = statistics.median(percents)
    note = (
        f"one training, {len(beside)} windows of {SAVE_STEPS} steps and a save, each between two in which the process "
        f"is stopped; steps of {statistics.median(without):.1f} ms, median {middle:+.2f}%, from {percents[0]:+.2f}% to "
        f"{percents[-1]:+.2f}%; the process takes {100 * share:.1f}% of a core"
    )
    return Measured("folder", middle, limit=(percents[-1] - percents[0]) / 2, note=note)


@contextmanager
def _training(place: Path) -> Iterator[psutil.Process]:
    """A training under a launcher, inside the block. The process beside it."""
    (place / "stored").mkdir()
    environment = pod(place / "outputs", f"file://{place}/stored/job", 1, place / "verdict")
    program = [
        "-m",
        "tests.bench.unchanged_program",
        str(place / "outputs"),
        str(MOST_STEPS),
        str(place / "times"),
        str(SAVE_STEPS),
    ]
    path = f"{ROOT}:{ROOT / 'images' / 'trainer'}"
    with (place / "log").open("wb") as log, subprocess.Popen(
        [sys.executable, str(LAUNCHER), "--", sys.executable, *program], cwd=ROOT, stdout=log, stderr=log,
        env={**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    ) as launcher:  # fmt: skip
        try:
            writer = wait_for(lambda: _writer_of(launcher), LONGEST, "the process beside the program")
            assert writer is not None
            yield writer
        except BaseException:
            for process in psutil.Process(launcher.pid).children(recursive=True):
                process.kill()
            launcher.kill()
            raise
        if launcher.wait(LONGEST) != 0:
            raise RuntimeError(f"the training ended with {launcher.returncode}: {(place / 'log').read_text()[-2000:]}")


def _writer_of(launcher: subprocess.Popen[bytes]) -> psutil.Process | None:
    found = psutil.Process(launcher.pid).children(recursive=True)
    return next((process for process in found if any(WRITER in one for one in process.cmdline())), None)


def _turns(writer: psutil.Process, folder: Path, count: int) -> tuple[list[Window], float]:
    """Windows without the process and with it, in turns, from one save to the next one. The last is without it.

    With them, what the process takes of a core while it is not stopped.
    """
    windows: list[Window] = []
    before = sum(writer.cpu_times()[:2])
    seen = _next_save(folder, "")
    for number in range(2 * count + 1):
        os.kill(writer.pid, signal.SIGSTOP if number % 2 == 0 else signal.SIGCONT)
        begun = time.monotonic_ns()
        seen = _next_save(folder, seen)
        windows.append((begun, time.monotonic_ns()))
    taken = sum(writer.cpu_times()[:2]) - before
    writer.resume()
    return windows, 1e9 * taken / sum(end - begin for begin, end in windows[1::2])


def _next_save(folder: Path, before: str) -> str:
    """The name of the newest save, as soon as it is another one than `before`."""

    def newest() -> str:
        found = [path.parent.name for path in folder.glob("checkpoint-*/trainer_state.json")]
        name = max(found, key=lambda name: int(name.rpartition("-")[2]), default=before)
        return "" if name == before else name

    return wait_for(newest, LONGEST, "a save of the program")


def _end(place: Path) -> list[int]:
    """End the program. When each of its steps began."""
    (place / "times.end").touch()
    wait_for((place / "times").exists, LONGEST, "the end of the program")
    begun: list[int] = json.loads((place / "times").read_text())
    return begun


def _mean_step(begun: list[int], window: Window) -> float:
    """Milliseconds of the steps that begin and end in a window."""
    inside = begun[bisect_left(begun, window[0]) : bisect_left(begun, window[1])]
    return (inside[-1] - inside[0]) / 1e6 / (len(inside) - 1)
