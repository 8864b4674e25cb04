"""What the relay of progress adds to a step of a program that knows nothing of Holdfast.

The same training runs without Holdfast and under a launcher with a relay, in turns, and each round begins with the
other one: a machine may become slower or faster between two trainings.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.checkpoint.arms import turns
from tests.bench.goals import Measured
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.folders import pod
from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER

ROOT = Path(__file__).parents[3]
LONGEST = 600  # seconds for one training
SAVE_STEPS = 50
FIRST = 20  # steps that do not count: memory and caches fill


async def measure(quick: bool) -> list[Measured]:
    """The median over several rounds of what a relay adds to the mean step of a training without Holdfast."""
    return await asyncio.to_thread(_measure, *((3, 200) if quick else (9, 500)))


def _measure(rounds: int, steps: int) -> list[Measured]:
    with tempfile.TemporaryDirectory(prefix="hf-as-it-is-") as name:
        folder = Path(name)
        endpoint = Endpoint(folder)
        endpoint.start()
        try:
            found = [_round(folder / str(number), endpoint, steps, number) for number in range(rounds)]
        finally:
            endpoint.stop()
        if not endpoint.reports:
            raise RuntimeError("no progress was relayed")
    bare = statistics.median(one["bare"] for one in found)
    percents = sorted((one["relay"] / one["bare"] - 1) * 100 for one in found)
    note = f"{rounds} rounds of {steps} steps of {bare:.1f} ms; from {percents[0]:+.2f}% to {percents[-1]:+.2f}%"
    return [Measured("relay", max(statistics.median(percents), 0.0), note=note)]


def _round(folder: Path, endpoint: Endpoint, steps: int, number: int) -> dict[str, float]:
    """Mean milliseconds of a step, by kind of training. Of each round of `number` the other kind is the first."""
    folder.mkdir()
    launcher = [sys.executable, str(LAUNCHER), "--"]
    with_folder = pod(folder / "outputs", f"file://{folder}/stored", 1, folder / "log")
    with_relay = pod_variables(with_folder, checkpoint_uri=None, folder=None, **endpoint.variables)
    kinds: dict[str, tuple[list[str], dict[str, str]]] = {
        "bare": ([], dict(os.environ)),
        "relay": (launcher, with_relay),
    }
    found = {}
    for kind in turns(list(kinds), number):
        before, environment = kinds[kind]
        found[kind] = _train(before, environment, folder / f"outputs-{kind}", steps, folder / f"times-{kind}")
    return found


def _train(before: list[str], environment: dict[str, str], place: Path, steps: int, times: Path) -> float:
    program = [
        sys.executable,
        "-m",
        "tests.bench.unchanged_program",
        str(place),
        str(steps),
        str(times),
        str(SAVE_STEPS),
    ]
    path = f"{ROOT}:{ROOT / 'images' / 'trainer'}"
    done = subprocess.run(
        [*before, *program], cwd=ROOT, env={**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"a training ended with {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}")
    begun = json.loads(times.read_text())[FIRST:]
    return float(begun[-1] - begun[0]) / 1e6 / (len(begun) - 1)
