"""What a save costs training: the call, and all time that steps take longer until the checkpoint is committed.

python -m tests.bench.checkpoint.stalls --size 512 --rounds 20
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from rich.console import Console
from rich.table import Table
from tests.support.trainer import variables
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from holdfast_train import Run

WIDTH: Final = 1024
BEST, DEFAULT, OURS = ("DCP save", "DCP async_save", "DCP async_save, process"), "DCP async_save", "Holdfast"
GOALS: Final = ((OURS, (DEFAULT,), 0.25), (OURS, BEST, 0.5))


@dataclass
class Arm:
    """One way to save. `begin` starts a save and returns what says whether it is done."""

    name: str
    begin: Callable[[int], Callable[[], bool]]
    calls: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)


class Training:
    """A stack of square matrices with AdamW: three times its weights are the state."""

    def __init__(self, megabytes: int, batch: int) -> None:
        layers = max(1, round(megabytes * 1e6 / (12 * WIDTH * WIDTH)))
        self.model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self._x = torch.randn(batch, WIDTH)

    def step(self) -> float:
        """One step; the seconds that it took."""
        began = time.perf_counter()
        self.model(self._x).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - began

    def state(self) -> dict[str, Any]:
        """As DCP and torch.save want it."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


def arms(training: Training, run: Run, folder: Path) -> list[Arm]:
    """All ways that are here."""

    def ours(_: int) -> Callable[[], bool]:
        run.step += 1
        checkpointer = run._checkpointer
        assert checkpointer is not None
        checkpointer.begin(run.step, 60.0, math.inf)
        return lambda: not checkpointer.saver.busy

    def torch_save(number: int) -> Callable[[], bool]:
        torch.save(training.state(), folder / f"torch-{number}")
        return lambda: True

    def dcp_save(number: int) -> Callable[[], bool]:
        dcp.save(training.state(), checkpoint_id=folder / f"dcp-{number}")
        return lambda: True

    def dcp_async(number: int) -> Callable[[], bool]:
        future: Any = dcp.async_save(training.state(), checkpoint_id=folder / f"async-{number}")
        return lambda: bool(future.done())

    def dcp_process(number: int) -> Callable[[], bool]:
        future: Any = dcp.async_save(
            training.state(),
            checkpoint_id=folder / f"process-{number}",
            async_checkpointer_type=AsyncCheckpointerType.PROCESS,
        )
        return lambda: bool(future.done())

    return [
        Arm(OURS, ours),
        Arm("torch.save", torch_save),
        Arm(BEST[0], dcp_save),
        Arm(DEFAULT, dcp_async),
        Arm(BEST[2], dcp_process),
    ]


def measure(training: Training, found: Sequence[Arm], folder: Path, rounds: int) -> float:
    """Each arm once a round, between steps without a save; the median of those, in seconds."""
    plain = [training.step() for _ in range(5)][2:]
    for number in range(rounds):
        for arm in (*found[number % len(found) :], *found[: number % len(found)]):
            usual = median(plain[-9:])
            began = time.perf_counter()
            done = arm.begin(number)
            call = time.perf_counter() - began
            late = []
            while not late or not done():
                late.append(training.step() - usual)
            arm.calls.append(call)
            arm.lost.append(call + sum(late))
            arm.longest.append(max(late))
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            plain += [training.step() for _ in range(3)]
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
    return median(plain)


def show(found: Sequence[Arm], usual: float, out: Console) -> None:
    """The table, and the goals."""
    table = Table("", "call ms", "lost s", "first s", "longest step +s", title=f"A save beside steps of {usual:.3f} s")
    for arm in found:
        figures = (1e3 * median(arm.calls[1:]), median(arm.lost[1:]), arm.lost[0], median(arm.longest[1:]))
        table.add_row(arm.name, *(f"{figure:.3f}" for figure in figures))
    out.print(table)
    by_name = {arm.name: median(arm.lost[1:]) for arm in found}
    for ours, others, goal in GOALS:
        best = min((name for name in others), key=lambda name: by_name[name])
        out.print(f"{ours} ÷ {best}: {by_name[ours] / by_name[best]:.2f} (goal {goal})")


def main() -> int:
    """Measure and print. A goal that is missed is shown, and is not an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.checkpoint.stalls", description=__doc__)
    parser.add_argument("--size", type=int, default=512, metavar="MB", help="size of the state (default 512)")
    parser.add_argument("--batch", type=int, default=256, help="rows in a step (default 256)")
    parser.add_argument("--rounds", type=int, default=20, help="saves of each way (default 20)")
    parser.add_argument("--json", action="store_true", help="print all rounds as JSON")
    options = parser.parse_args()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29599", "RANK": "0", "WORLD_SIZE": "1"}
    dist.init_process_group("gloo")
    training = Training(options.size, options.batch)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        os.environ |= variables(f"file://{name}/ours")
        (folder := Path(name) / "others").mkdir()
        with Run(model=training.model, optimizer=training.optimizer) as run:
            training.step()
            run.advance()
            found = arms(training, run, folder)
            usual = measure(training, found, folder, options.rounds)
            run.left = True
    dist.destroy_process_group()
    if options.json:
        json.dump({arm.name: {"calls": arm.calls, "lost": arm.lost} for arm in found}, sys.stdout)
    else:
        show(found, usual, Console(width=110))
    return 0


if __name__ == "__main__":
    sys.exit(main())
