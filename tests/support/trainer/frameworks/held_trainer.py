"""Trainers of Hugging Face and Lightning, and loops, in processes of their own, noting each batch to the last bit."""

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.trainer.exact import start
from tests.support.trainer.stores import variables

from holdfast_protocol.settings import Every

SAMPLES = 44
TIMES = ("runtime", "per_second")  # in names of figures that differ between two runs


@dataclass(frozen=True)
class Setup:
    """How the Trainer trains. `noisy`: the data set and the collate function draw random numbers."""

    processes: int = 1
    accumulate: int = 1
    workers: int = 0
    sampling: str = "random"
    noisy: bool = False
    fsdp: bool = False
    scaled: bool = False  # in half precision, with a loss scale that skips steps
    epochs: int = 2
    library: str = "trainer"

    def __str__(self) -> str:
        """Such as `2-accumulate2-workers1-random`, for the names of tests."""
        words = [str(self.processes), f"accumulate{self.accumulate}", f"workers{self.workers}", self.sampling]
        return "-".join(words + [name for name in ("noisy", "fsdp", "scaled") if getattr(self, name)])


@dataclass(frozen=True)
class Seen:
    """What an attempt did: a line for each batch of each rank, the log of the Trainer if it came to its end."""

    batches: list[list[Any]]
    logs: list[dict[str, Any]]
    end: str

    @property
    def samples(self) -> list[int]:
        return [number for batch in self.batches for number in batch[-1]]


@dataclass
class Trial:
    """One training over several attempts, with its checkpoints in `folder` (without Holdfast if not `held`)."""

    folder: Path
    held: bool = True
    more: dict[str, str] = field(default_factory=dict)  # variables of the pod
    attempt: int = field(default=0, init=False)

    def run(self, setup: Setup, *, ends: int = 0, at: int | None = None, by: int = signal.SIGKILL) -> Seen:
        """The next attempt: train to the end, or get the signal `by` in step `at`. It has to end with code `ends`."""
        self.attempt += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        codes = start(setup.processes, _train, setup, self, at, by)
        outputs = [self.file(rank, "txt").read_text() for rank in range(setup.processes)]
        if set(codes) != {ends}:
            raise RuntimeError(f"attempt {self.attempt} ended with {codes}, not {ends}:\n" + "\n".join(outputs))
        lines = [
            json.loads(line)
            for rank in range(setup.processes)
            for line in self.file(rank, "jsonl").read_text().splitlines()
        ]
        batches = [line for line in lines if isinstance(line, list)]
        logs = [line["logs"] for line in lines if isinstance(line, dict)]
        return Seen(sorted(batches), logs[0] if logs else [], outputs[0])

    def file(self, rank: int, kind: str) -> Path:
        return self.folder / f"attempt-{self.attempt}-rank-{rank}.{kind}"


# In the process of a rank.


def _train(setup: Setup, trial: Trial, at: int | None, by: int) -> None:
    rank = int(os.environ["RANK"])
    output = os.open(trial.file(rank, "txt"), os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if trial.held:
        os.environ.update(variables(f"file://{trial.folder}/prefix", trial.attempt, every=Every(3), **trial.more))
    if setup.processes == 1:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            del os.environ[name]
    with trial.file(rank, "jsonl").open("w", buffering=1) as file:

        def write(line: Any) -> None:
            file.write(json.dumps(line) + "\n")

        sys.exit(_main(setup, trial, write, at, by))


def _main(setup: Setup, trial: Trial, write: Callable[[Any], None], at: int | None, by: int) -> None:
    from tests.support.trainer.inside import settle

    from holdfast_train.frameworks import epoch_run, lightning, transformers

    runs: list[Any] = []

    class Kept(transformers.Run):  # type: ignore[misc]
        def __enter__(self) -> Any:
            runs.append(self)
            return super().__enter__()

    transformers.Run = epoch_run.Run = lightning.Run = Kept  # type: ignore[misc]

    def after(step: int) -> None:
        if runs:
            settle(runs[-1])
        if step == at:
            import torch

            if torch.distributed.is_initialized():
                torch.distributed.barrier()
            os.kill(os.getpid(), by)

    if setup.library != "trainer":
        loop = importlib.import_module(f"tests.support.trainer.frameworks.{setup.library}_loop")
        loop.train(setup, write, after)
        return
    from tests.support.trainer.frameworks.trainer_parts import make_trainer

    trainer = make_trainer(setup, trial.folder / "output", write, after)
    transformers.train(trainer)
    logs = [{k: v for k, v in log.items() if not any(time in k for time in TIMES)} for log in trainer.state.log_history]
    write({"logs": logs})
