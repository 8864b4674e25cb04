"""What checkpoint.folder and the relay of progress add to a step of a program that knows nothing of Holdfast.

The same training runs without Holdfast, under a launcher with a folder, and under one with a relay, in turns, and each
round begins with another one: a machine may become slower or faster between two trainings.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.goals import Measured
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.folders import pod
from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER

ROOT = Path(__file__).parents[3]
LONGEST = 600  # seconds for one training
FIRST = 20  # steps that do not count: memory and caches fill


async def measure(quick: bool) -> list[Measured]:
    """The median over several rounds of what each kind of training adds to the mean step of one without Holdfast.

    Of the steps of a training it is the mean: an upload is beside some of them, and a median would not see it.
    """
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
    results = []
    for key in ("folder", "relay"):
        percents = sorted((one[key] / one["bare"] - 1) * 100 for one in found)
        note = f"{rounds} rounds of {steps} steps of {bare:.1f} ms; from {percents[0]:+.2f}% to {percents[-1]:+.2f}%"
        results.append(Measured(key, max(statistics.median(percents), 0.0), note=note))
    return results


def _round(folder: Path, endpoint: Endpoint, steps: int, number: int) -> dict[str, float]:
    """Mean milliseconds of a step, by kind of training. Of each round of `number` another kind is the first."""
    folder.mkdir()
    launcher = [sys.executable, str(LAUNCHER), "--"]
    outputs, stored = folder / "outputs", folder / "stored"
    stored.mkdir()
    with_folder = pod(outputs, f"file://{stored}/job", 1, folder / "log")
    with_relay = pod_variables(with_folder, checkpoint_uri=None, folder=None, **endpoint.variables)
    kinds = {"bare": ([], dict(os.environ)), "folder": (launcher, with_folder), "relay": (launcher, with_relay)}
    found = {}
    for kind in (*list(kinds)[number % 3 :], *list(kinds)[: number % 3]):
        before, environment = kinds[kind]
        place = outputs if kind == "folder" else folder / f"outputs-{kind}"
        found[kind] = _train(before, environment, place, steps, folder / f"times-{kind}")
    if not list(stored.rglob("manifests/*")):
        raise RuntimeError("no checkpoint of the folder was saved")
    return found


def _train(before: list[str], environment: dict[str, str], place: Path, steps: int, times: Path) -> float:
    program = [sys.executable, "-m", "tests.bench.unchanged_program", str(place), str(steps), str(times)]
    path = f"{ROOT}:{ROOT / 'images' / 'trainer'}"
    done = subprocess.run(
        [*before, *program], cwd=ROOT, env={**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"a training ended with {done.returncode}: {done.stdout.decode(errors='replace')[-2000:]}")
    return statistics.fmean(json.loads(times.read_text())[FIRST:])
