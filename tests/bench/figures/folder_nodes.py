"""How long commits of four parts of 256 MB take at the same time: beside one part alone, and beside plain uploads.

Four nodes of a cluster share the network and the store. Here they share two cores with the store too, so one part alone
has four times as much of the processor as each of four. What that makes is measured with plain uploads.
"""

import asyncio
import shutil
import statistics
from pathlib import Path
from typing import Final

from tests.bench.checkpoint.arms import turns
from tests.bench.folder import training
from tests.bench.folder.nodes import BOTO3, COMMIT, PLAIN, nodes, upload_at_once
from tests.bench.folder.saved import BUCKET, start_store
from tests.bench.goals import Measured

COUNT: Final = 4
ARMS: Final = ((COMMIT, 1), (COMMIT, COUNT), (PLAIN, 1), (PLAIN, COUNT))
PEER: Final = BOTO3, COUNT  # in the last round alone: it takes as long as all others


async def measure(quick: bool) -> list[Measured]:
    """The medians over several rounds of the ratios within a round."""
    return await asyncio.to_thread(_measure, *((32, 2) if quick else (256, 3)))


def _measure(megabytes: int, rounds: int) -> list[Measured]:
    took: dict[tuple[str, int], list[float]] = {arm: [] for arm in (*ARMS, PEER)}
    with training.in_memory(3 * COUNT * megabytes * training.MEGABYTE) as place:
        folders = [place / f"node-{number}" for number in range(COUNT)]
        for folder in folders:
            _make_part(folder, megabytes * training.MEGABYTE)
        store = start_store(place / "store")
        try:
            with nodes(folders, store.port) as members:
                for number in range(rounds):
                    for way, count in (*turns(ARMS, number), *((PEER,) if number == rounds - 1 else ())):
                        seconds = upload_at_once(members[:count], way, "job")
                        shutil.rmtree(place / "store" / BUCKET / "job")
                        took[way, count].append(seconds)
        finally:
            store.kill()
    return _results(took, megabytes)


def _make_part(folder: Path, size: int) -> None:
    """The shard of a model, and that of an optimizer, which has twice the bytes."""
    training.write_noise(folder / training.SAVE / "model.safetensors", size // 3)
    training.write_noise(folder / training.SAVE / "optimizer.pt", size - size // 3)


def _results(took: dict[tuple[str, int], list[float]], megabytes: int) -> list[Measured]:
    def ratios(one: tuple[str, int], other: tuple[str, int]) -> list[float]:
        return [a / b for a, b in zip(took[one], took[other], strict=True)]

    def median(arm: tuple[str, int]) -> float:
        return statistics.median(took[arm])

    alone, beside = ratios((COMMIT, COUNT), (COMMIT, 1)), ratios((COMMIT, COUNT), (PLAIN, COUNT))
    bound = ratios((PLAIN, COUNT), (PLAIN, 1))
    size = f"parts of {megabytes} MB, {len(alone)} rounds"
    return [
        Measured(
            "folder-nodes", statistics.median(alone), limit=statistics.median(bound),
            note=f"{size}, {min(alone):.2f} to {max(alone):.2f}; {median((COMMIT, 1)):.2f} s alone; plain uploads take "
            f"{statistics.median(bound):.2f} times as long as one alone, {min(bound):.2f} to {max(bound):.2f}",
        ),
        Measured(
            "folder-nodes-plain", statistics.median(beside),
            took[PEER][-1] / took[PLAIN, COUNT][-1],
            note=f"{size}, {min(beside):.2f} to {max(beside):.2f}; plain uploads take {median((PLAIN, COUNT)):.2f} s",
        ),
    ]  # fmt: skip
