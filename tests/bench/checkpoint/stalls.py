"""What a save costs training: the call, and all time that steps take longer until the checkpoint is committed."""

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tests.bench.checkpoint import peers
from tests.bench.checkpoint.arms import OURS, turns
from tests.bench.checkpoint.section import Section, Verdict, at_most
from tests.bench.checkpoint.training import Training, device_name
from tests.support.trainer.stores import variables
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from holdfast_train import Run

BATCH: Final = 256
NOTHING, TORCH_SAVE, SAFETENSORS, DCP, ASYNC, PROCESS, FLOOR = (
    "no save", "torch.save", "safetensors", "DCP save", "DCP async_save", "DCP async_save, stager and process",
    "copy into pinned memory",
)  # fmt: skip
CALL, LOST, BEST, FIRST, PINNED = 5.0, 0.25, 0.5, 1.2, 0.1
HEAD: Final = ("way", "call, ms", "time lost, s", "of the first, s", "longest step, + s", "until it is there, s")

Begin = Callable[[int], Callable[[], bool]]


@dataclass
class Arm:
    """One way to save. `begin` starts a save and returns what says whether it is done. Figures in seconds, per save."""

    name: str
    begin: Begin
    calls: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)

    def row(self) -> tuple[str, ...]:
        """One line of the table: medians over all saves but the first."""
        return (
            self.name, f"{1e3 * median(self.calls[1:]):.1f}", f"{median(self.lost[1:]):.3f}", f"{self.lost[0]:.3f}",
            f"{median(self.longest[1:]):.3f}", f"{median(self.durations[1:]):.2f}",
        )  # fmt: skip


def stalls(megabytes: int, rounds: int, say: Callable[[str], None]) -> Section:
    """All ways, on a state of about `megabytes`, each once a round. For a process of its own: DCP leaves one behind."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, _group():
        training = Training(megabytes, BATCH, device_name())
        (others := Path(name) / "others").mkdir()
        os.environ |= variables(f"file://{name}/ours")
        with Run(model=training.model, optimizer=training.optimizer) as run:
            run.advance()  # the arena is made, as after any first step
            arms = [Arm(OURS, _ours(run)), *_peers(training, others)]
            usual = _measure(training, arms, others, rounds, say)
            # Last and alone: once it is there, its process keeps a core busy.
            arms.append(_dcp_process(training, others))
            _measure(training, arms[-1:], others, rounds, say)
            run.left = True  # no last save
    where = (
        "on a GPU" if device_name() == "cuda" else "on the CPU; there is no GPU here, so nothing was measured on one"
    )
    return Section(
        title=f"A save of {training.size / 1e6:.0f} MB beside steps of {usual:.2f} s",
        head=HEAD,
        rows=tuple(arm.row() for arm in arms),
        verdicts=tuple(verdicts(arms, f"{megabytes} MB")),
        notes=(
            f"Medians of {rounds - 1} saves of each way into a folder, in turns, between steps without one; {where}.",
            "Time lost: the call, and what steps took longer than without a save until the checkpoint was there.",
        ),
        rounds={arm.name: {"calls": arm.calls, "lost": arm.lost, "longest": arm.longest} for arm in arms},
    )


@contextmanager
def _group() -> Iterator[None]:
    """One of this process alone, for DCP."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def verdicts(arms: Sequence[Arm], size: str) -> Iterator[Verdict]:
    """The goals, for a state of this `size`."""
    lost = {arm.name: median(arm.lost[1:]) for arm in arms}
    ours = next(arm for arm in arms if arm.name == OURS)
    yield at_most(f"{size}: the save call, ms", 1e3 * median(ours.calls[1:]), CALL)
    yield at_most(f"{size}: time lost ÷ {ASYNC}", _ratio(lost[OURS], lost[ASYNC]), LOST)
    best = min((DCP, ASYNC, PROCESS), key=lambda name: lost.get(name, math.inf))
    yield at_most(f"{size}: time lost ÷ best of DCP ({best})", _ratio(lost[OURS], lost[best]), BEST)
    yield at_most(f"{size}: time lost by the first save ÷ by later ones", _ratio(ours.lost[0], lost[OURS]), FIRST)
    if FLOOR in lost:
        yield at_most(f"{size}: time lost ÷ copy into pinned memory", _ratio(lost[OURS], lost[FLOOR]), PINNED)


def _ratio(ours: float, its: float) -> float | None:
    """None where what it is compared with is lost in the noise."""
    return max(0.0, ours) / its if its > 0 else None


def _ours(run: Run) -> Begin:
    checkpointer = run._checkpointer
    assert checkpointer is not None

    def begin(_: int) -> Callable[[], bool]:
        run.step += 1
        checkpointer.begin(run.step, 60.0, math.inf)
        return lambda: not checkpointer.saver.is_busy

    return begin


def _peers(training: Training, folder: Path) -> Iterator[Arm]:
    def at_once(save: Callable[[Path], Any]) -> Begin:
        def begin(number: int) -> Callable[[], bool]:
            save(folder / str(number))
            return lambda: True

        return begin

    yield Arm(NOTHING, at_once(lambda _: None))
    yield Arm(TORCH_SAVE, at_once(lambda path: torch.save(training.state(), path)))
    if peers.missing("safetensors") is None:
        from safetensors.torch import save_file

        yield Arm(SAFETENSORS, at_once(lambda path: save_file(training.tensors(), path)))
    yield Arm(DCP, at_once(lambda path: dcp.save(training.state(), checkpoint_id=path)))
    yield Arm(ASYNC, _dcp_async(training, folder))
    if device_name() == "cuda":
        pinned = {
            name: torch.empty_like(value, device="cpu").pin_memory() for name, value in training.tensors().items()
        }

        def copy(_: Path) -> None:
            for name, value in training.tensors().items():
                pinned[name].copy_(value, non_blocking=True)
            torch.cuda.synchronize()

        yield Arm(FLOOR, at_once(copy))


def _dcp_async(training: Training, folder: Path, **options: Any) -> Begin:
    def begin(number: int) -> Callable[[], bool]:
        answer: Any = dcp.async_save(training.state(), checkpoint_id=folder / str(number), **options)
        done: Callable[[], bool] = getattr(answer, "upload_completion", answer).done  # two, where it stages beside us
        return done

    return begin


def _dcp_process(training: Training, folder: Path) -> Arm:
    cuda = device_name() == "cuda"
    staging = StagingOptions(
        use_pinned_memory=cuda, use_shared_memory=True, use_async_staging=cuda, use_non_blocking_copy=cuda
    )
    options = {"async_checkpointer_type": AsyncCheckpointerType.PROCESS, "async_stager": DefaultStager(staging)}
    return Arm(PROCESS, _dcp_async(training, folder, **options))


def _measure(training: Training, arms: Sequence[Arm], folder: Path, rounds: int, say: Callable[[str], None]) -> float:
    """Each way once a round, between steps without a save; the median of those, in seconds."""
    plain = [training.step() for _ in range(5)][2:]
    for number in range(rounds):
        for arm in turns(arms, number):
            usual = median(plain[-9:])
            began = time.perf_counter()
            done = arm.begin(number)
            call = time.perf_counter() - began
            late: list[float] = []
            while not late or not done():
                late.append(training.step() - usual)
            arm.durations.append(time.perf_counter() - began)
            arm.calls.append(call)
            arm.lost.append(call + sum(late))
            arm.longest.append(max(late))
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            plain += [training.step() for _ in range(3)]
        say(f"round {number + 1} of {rounds}")
    return median(plain)
