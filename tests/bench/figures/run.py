"""`holdfast run`: from a folder with a script to the first step, on a local cluster, and what changed code costs.

The first step is there when the log of `holdfast run --follow` has its line. The parts of 5 MB of changed code are
measured against a store on this machine: what 100 MB a second would add is computed from its bytes.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from rich.console import Console
from tests.bench.folder.saved import start_store, storage_at
from tests.bench.goals import Measured

from holdfast_cli.code.folder import select
from holdfast_cli.code.upload import send
from holdfast_local.config import ClusterConfig
from holdfast_local.installed.ensure import ensure
from holdfast_train.code.store import fetch

ROUNDS: Final = 5
MEGABYTES: Final = 5
RATE: Final = 100e6  # bytes a second
SCRIPT: Final = """
import time

from holdfast_train import Run


class Mean:
    def __init__(self):
        self.value = 0.0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


mean = Mean()
with Run(mean=mean) as run:
    for step in run.steps(20):
        mean.value += (step - mean.value) / (step + 1)
        run.report(loss=mean.value)
        print(f"step {step}", flush=True)
        time.sleep(0.05)
"""


async def measure(quick: bool) -> list[Measured]:
    """The medians over several rounds."""
    return await asyncio.to_thread(lambda: list(_measure(2 if quick else ROUNDS)))


def _measure(rounds: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory(prefix="holdfast-run-") as name:
        place = Path(name)
        (place / "program").mkdir()
        (place / "program" / "train.py").write_text(SCRIPT)
        began = perf_counter()
        cluster = ensure(ClusterConfig(root=place / "cluster"))
        started = perf_counter() - began
        try:
            found = [_first_step(place / "program", cluster.admin_kubeconfig) for _ in range(rounds)]
        finally:
            cluster.down()
        note = f"{rounds} rounds, {min(found):.2f} to {max(found):.2f} s"
        yield Measured("run-first-step", median(found), note=f"{note}; the cluster itself starts in {started:.1f} s")
        yield from _changed_code(place, rounds)


def _first_step(folder: Path, kubeconfig: Path) -> float:
    """Seconds from the command to the line of the first step."""
    line = [str(Path(sys.executable).with_name("holdfast")), "run", "--follow", "--", "python", "train.py"]
    began = perf_counter()
    with subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen = next((perf_counter() for text in process.stdout if text.startswith("step ")), None)
        process.stdout.read()
    if seen is None or process.returncode != 0:
        raise RuntimeError(f"holdfast run ended with {process.returncode}, and no step was seen")
    return seen - began


def _changed_code(place: Path, rounds: int) -> Iterator[Measured]:
    """5 MB of code that changes each time: how long until it is in a pod's folder; and sent once more unchanged."""
    root, store = place / "code", start_store(place / "store")
    parts: dict[str, list[float]] = {"choose and hash": [], "pack and send": [], "fetch and unpack": []}
    totals, again, quiet = [], 0, Console(quiet=True)
    try:
        storage = storage_at(store.port, "job")
        for number in range(rounds):
            _write(root, number)
            marks = [perf_counter()]
            selection = select(root)
            marks.append(perf_counter())
            sent = send(storage, selection, quiet)
            marks.append(perf_counter())
            target = place / f"pod-{number}"
            target.mkdir()
            fetch(storage, selection.sha256, target)
            marks.append(perf_counter())
            for part, (one, other) in zip(parts, pairwise(marks), strict=True):
                parts[part].append(other - one)
            totals.append(marks[-1] - marks[0] + 2 * sent / RATE)
            again += send(storage, select(root), quiet)
    finally:
        store.kill()
    words = ", ".join(f"{part} {median(seconds):.2f} s" for part, seconds in parts.items())
    note = f"{MEGABYTES} MB in 500 files, {rounds} rounds, {min(totals):.2f} to {max(totals):.2f} s; {words}"
    yield Measured("run-changed", median(totals), note=note)
    yield Measured("run-again", again, note=f"{rounds} times the same folder")


def _write(root: Path, number: int) -> None:
    for file in range(500):
        path = root / f"part{file % 20}" / f"module{file}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(f"value_{line} = {number * file * line % 999_983}\n" for line in range(480))
        path.write_text(content[: MEGABYTES * 1_000_000 // 500])
