"""The reference trainer in processes of its own, with all that a step leaves behind written down to the last bit.

A process is forked from a server that has loaded torch, so that a trial takes a second and not ten.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.support.free_ports import free_port
from tests.support.trainer.stores import variables

from holdfast_protocol.settings import Every

PATIENCE = 120  # seconds until a run is taken for hung
SAVE_EVERY = 10
TINY = ("--dim=16", "--layers=2", "--heads=2", "--context=8", "--warmup=5", "--show-every=1000")


@dataclass(frozen=True)
class Setup:
    """How the trainer runs. `batch`: windows in a step, over all processes."""

    processes: int = 1
    precision: str = "fp32"
    accumulate: int = 1
    sharded: bool = False
    batch: int = 12

    def __str__(self) -> str:
        """Such as `2-bf16-accumulate2-sharded`, for the names of tests."""
        words = [str(self.processes), self.precision, f"accumulate{self.accumulate}"]
        return "-".join([*words, "sharded"] if self.sharded else words)

    def options(self, steps: int, data: Path) -> list[str]:
        """The trainer's options."""
        own = [f"--precision={self.precision}", f"--accumulate={self.accumulate}", f"--batch={self.batch}"]
        return [*TINY, *own, f"--steps={steps}", f"--data={data}", *(["--fsdp"] if self.sharded else [])]


@dataclass(frozen=True)
class Step:
    """What one step left behind: on each rank the bits of weights and optimizer (a hash), the loss and a random number
    drawn after it; and the samples of all ranks in their order."""

    step: int
    bits: tuple[str, ...]
    losses: tuple[str, ...]
    random: tuple[str, ...]
    samples: tuple[int, ...]


@dataclass
class Trial:
    """One training over several attempts, with its checkpoints in `folder` (if it is `saving`)."""

    folder: Path
    saving: bool = True
    attempt: int = field(default=0, init=False)

    def run(self, setup: Setup, *, to: int, kill_after: int | None = None) -> list[Step]:
        """The next attempt: train to step `to`, or be killed (SIGKILL, every process) in the middle of `kill_after`.

        The steps of this attempt. RuntimeError with the output if it ended in another way.
        """
        self.attempt += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "text"
        data.write_text("".join(f"{number} squared is {number * number}\n" for number in range(60)))
        ends = start(setup.processes, _train, setup, setup.options(to, data), kill_after, self)
        wanted = 0 if kill_after is None else -signal.SIGKILL
        outputs = [self.file(rank, "txt").read_text() for rank in range(setup.processes)]
        if any(end != wanted for end in ends):
            raise RuntimeError(f"attempt {self.attempt} ended with {ends}, not {wanted}:\n" + "\n".join(outputs))
        lines = [self.file(rank, "jsonl").read_text().splitlines() for rank in range(setup.processes)]
        return [_merged([json.loads(line) for line in of_step]) for of_step in zip(*lines, strict=True)]

    def file(self, rank: int, kind: str) -> Path:
        """What a process of this attempt writes: its output in `txt`, a line for each step in `jsonl`."""
        return self.folder / f"attempt-{self.attempt}-rank-{rank}.{kind}"


def start(processes: int, function: Callable[..., None], *arguments: Any) -> list[int | None]:
    """Run `function` in as many processes, with torchrun's variables; their exit codes, once all have ended.

    One that still runs after PATIENCE is killed.
    """
    context = process_context()
    port = free_port()
    found: list[BaseProcess] = []
    try:
        for rank in range(processes):
            world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
            world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            found.append(context.Process(target=_begin, args=(world, function, *arguments)))
            found[-1].start()
        for process in found:
            process.join(PATIENCE)
    finally:
        for process in found:
            if process.is_alive():
                process.kill()
                process.join()
    return [process.exitcode for process in found]


def process_context() -> ForkServerContext:
    """What starts the processes of trainings. All of a pytest process come from one server, the first that is asked."""
    context = multiprocessing.get_context("forkserver")
    own = ("holdfast_train.examples.language_model", "transformers.trainer", "lightning.pytorch")
    context.set_forkserver_preload(["torch", "torch._dynamo", "numpy.random", *own])
    return context


def _begin(world: dict[str, str], function: Callable[..., None], *arguments: Any) -> None:
    import torch

    os.environ.update(world)
    torch.manual_seed(0)  # ranks begin alike, as after the import of torch they do not
    multiprocessing.set_start_method("fork", force=True)  # for its data loader's workers, as in any other program
    torch.set_num_threads(1)
    function(*arguments)


# In the trainer's process.


def _train(setup: Setup, options: list[str], kill_after: int | None, trial: Trial) -> None:
    from holdfast_train.examples import language_model

    rank = int(os.environ["RANK"])
    output = os.open(trial.file(rank, "txt"), os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    more = {"every": Every(SAVE_EVERY), "HOLDFAST_CACHE": str(trial.folder)}
    storage = f"file://{trial.folder}/prefix" if trial.saving else None
    os.environ.update(variables(storage, trial.attempt, **more))
    if setup.processes == 1 and not setup.sharded:
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            del os.environ[name]
    with trial.file(rank, "jsonl").open("w", buffering=1) as file:  # each line is out before the next step
        _record(language_model, file.write, kill_after)
        sys.exit(language_model.main(options))


def _record(module: Any, write: Callable[[str], object], kill_after: int | None) -> None:
    """Let the trainer write a line after each step, and be killed after one, before the run has counted it."""
    import torch
    from tests.support.trainer.inside import settle

    runs: list[Any] = []

    class Kept(module.Run):  # type: ignore[misc, name-defined]
        def __enter__(self) -> Any:
            runs.append(self)
            return super().__enter__()

    class Recorded(module.Trainer):  # type: ignore[misc, name-defined]
        def step(self, step: int) -> Any:
            settle(runs[-1])
            numbers, seen = self.data.numbers, []
            self.data.numbers = lambda *of: seen.append(numbers(*of)) or seen[-1]
            loss = super().step(step)
            del self.data.numbers
            bits = hashlib.sha256()
            for piece in _bits([self.model.state_dict(), self.optimizer.state_dict(), self.schedule.state_dict()]):
                bits.update(piece)
            random = torch.rand((), dtype=torch.float64).item()
            samples = [int(number) for found in seen for number in found]
            line = {"step": step, "bits": bits.hexdigest(), "loss": loss.item().hex(), "random": random.hex()}
            write(json.dumps({**line, "samples": samples}) + "\n")
            if step == kill_after:
                if torch.distributed.is_initialized():
                    torch.distributed.barrier()  # a rank that still waits for this one would fail instead
                os.kill(os.getpid(), signal.SIGKILL)
            return loss

    module.Trainer, module.Run = Recorded, Kept


def _bits(value: Any) -> Iterator[bytes]:
    """Every bit of a state: tensors whole (of all ranks), numbers, and the keys that lead to them."""
    import torch

    if isinstance(value, torch.Tensor):
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        yield repr((whole.dtype, whole.shape)).encode()
        yield whole.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, dict):
        for key in value:
            yield repr(key).encode()
            yield from _bits(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _bits(item)
    elif not callable(value):
        yield repr(value).encode()


def _merged(lines: list[dict[str, Any]]) -> Step:
    (step,) = {line["step"] for line in lines}
    bits, losses, random = (tuple(line[key] for line in lines) for key in ("bits", "loss", "random"))
    return Step(step, bits, losses, random, tuple(number for line in lines for number in line["samples"]))
