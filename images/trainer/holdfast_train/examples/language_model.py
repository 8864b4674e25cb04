"""A decoder-only transformer that learns bytes: model, loss and training loop, to be read from top to bottom.

python -m holdfast_train.examples.language_model --steps 600
torchrun --nproc-per-node 2 -m holdfast_train.examples.language_model --steps 600 --fsdp
"""

import argparse
import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn import functional as F  # noqa: N812
from torch.nn.parallel import DistributedDataParallel

from holdfast_train import Run
from holdfast_train.examples.byte_data import VOCABULARY, ByteData, build


@dataclass(frozen=True)
class Shape:
    """Size of the model. `hidden`, the width of the feed-forward, is 8/3 of `dim`, rounded up to a multiple of 32."""

    dim: int = 256
    layers: int = 4
    heads: int = 4
    context: int = 128

    @property
    def hidden(self) -> int:
        return 32 * math.ceil(self.dim * 8 / 3 / 32)


class Rotary(nn.Module):
    """Rotary positions: each pair of channels turns by an angle that grows with the position, at its own frequency."""

    cos: Tensor
    sin: Tensor

    def __init__(self, head: int, context: int, base: float = 10_000.0) -> None:
        super().__init__()
        frequencies = base ** (-torch.arange(0, head, 2).float() / head)
        angles = torch.outer(torch.arange(context).float(), frequencies)  # (context, head / 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, heads, time, head)
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim, bias=False)
        self.out = nn.Linear(shape.dim, shape.dim, bias=False)
        self.rotary = Rotary(shape.dim // shape.heads, shape.context)

    def forward(self, x: Tensor) -> Tensor:  # (batch, time, dim)
        batch, length, dim = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        out: Tensor = self.out(y.transpose(1, 2).reshape(batch, length, dim))
        return out


class SwiGLU(nn.Module):
    """The feed-forward: one linear map gates another."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_up = nn.Linear(shape.dim, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Pre-norm: each half reads a normalised copy and adds to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.dim)
        self.attention = Attention(shape)
        self.feed_norm = nn.RMSNorm(shape.dim)
        self.feed = SwiGLU(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.feed(self.feed_norm(x))
        return out


class LanguageModel(nn.Module):
    """Bytes in, logits of the next byte out. The embedding is also the output projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.dim)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # Each block adds to the residual stream twice: smaller initial outputs keep the sum from growing.
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers) if last else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:  # (batch, time) -> (batch, time, 256)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)


def make_optimizer(model: nn.Module, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW. Weight decay applies to matrices only."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    fused = any(p.is_cuda for p in matrices)
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), eps=1e-8, fused=fused)


def shard(model: LanguageModel) -> None:
    """FSDP2: each rank keeps a piece of every weight, gradient and moment. A block is whole only while it computes."""
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)


def cosine(step: int, warmup: int, steps: int) -> float:
    """The learning rate's factor: linear up to 1 over `warmup` steps, then half a cosine down to 0.1."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))


class Trainer:
    """One step of training, on any device and any number of ranks."""

    def __init__(self, options: argparse.Namespace, device: torch.device, rank: int, ranks: int) -> None:
        self.options, self.device, self.rank, self.ranks = options, device, rank, ranks
        torch.manual_seed(options.seed)
        model = LanguageModel(Shape(options.dim, options.layers, options.heads, options.context)).to(device)
        self.parameters = sum(p.numel() for p in model.parameters())
        if options.fsdp:
            shard(model)
        self.optimizer = make_optimizer(model, options.rate, options.decay)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: cosine(step, options.warmup, options.steps)
        )
        self.data = ByteData(build(options.data), length=options.context, batch=options.batch, seed=options.seed)
        self.model: nn.Module = model
        if ranks > 1 and not options.fsdp:
            self.model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
        if options.compile:
            self.model.compile()

    def precision(self) -> contextlib.AbstractContextManager[object]:
        """bf16 for matrix products. Weights, gradients and optimizer state stay in fp32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.options.precision == "bf16")

    def averaging(self, last: bool) -> contextlib.AbstractContextManager[object]:
        """Average the gradients of all ranks once in a step, with its last piece."""
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(last)
        elif isinstance(self.model, DistributedDataParallel) and not last:
            return self.model.no_sync()
        return contextlib.nullcontext()

    def micro_batches(self, step: int) -> Iterator[tuple[Tensor, Tensor]]:
        """This rank's share of the step's windows: inputs and targets, each (batch, context)."""
        windows = torch.from_numpy(self.data.batch(step, self.rank, self.ranks))
        for piece in windows.to(self.device, non_blocking=True).chunk(self.options.accumulate):
            yield piece[:, :-1], piece[:, 1:]

    def step(self, step: int) -> Tensor:
        """Train on one batch. Return the mean loss in nats per byte, on the device."""
        pieces = list(self.micro_batches(step))
        total = torch.zeros((), device=self.device)
        for number, (inputs, targets) in enumerate(pieces):
            with self.averaging(last=number == len(pieces) - 1):
                with self.precision():
                    logits = self.model(inputs)
                loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten()) / len(pieces)
                loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total


def show(step: int, steps: int, loss: Tensor, seconds: float) -> None:
    """Print one line, which replaces the last one on a terminal."""
    text = f"step {step:6d}/{steps}  loss {loss.item():.4f}  {1 / seconds:6.1f} steps/s"
    sys.stdout.write(f"\r{text}" if sys.stdout.isatty() else f"{text}\n")
    sys.stdout.flush()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options. The default of `--steps` is the job's goal."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast_train.examples.language_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    goal = int(os.environ.get("HOLDFAST_GOAL_STEPS") or 600)
    parser.add_argument("--steps", type=int, default=goal, help=f"train up to this step (default {goal})")
    parser.add_argument("--data", default=None, help="text: a folder, a file or a glob (default: Python's own source)")
    parser.add_argument("--dim", type=int, default=256, help="width of the model (default 256)")
    parser.add_argument("--layers", type=int, default=4, help="number of blocks (default 4)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads of a block (default 4)")
    parser.add_argument("--context", type=int, default=128, help="bytes in a window")
    parser.add_argument("--batch", type=int, default=4, help="windows in a step, over all ranks")
    parser.add_argument("--accumulate", type=int, default=1, help="pieces that a rank's batch is cut into")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--warmup", type=int, default=50, help="steps")
    parser.add_argument("--decay", type=float, default=0.1, help="weight decay of matrices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show-every", type=int, default=10, help="steps between two lines")
    automatic = "bf16" if torch.cuda.is_available() else "fp32"
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16"),
        default=automatic,
        help="precision of matrix products; on a GPU, fp32 means TF32",
    )
    parser.add_argument("--fsdp", action="store_true", help="shard weights and optimizer over the ranks")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    options = parser.parse_args(argv)
    if options.dim % (2 * options.heads):
        parser.error(f"--dim {options.dim} must be a multiple of twice --heads {options.heads}")
    if options.fsdp and "WORLD_SIZE" not in os.environ:
        parser.error("--fsdp needs a process group; start it with torchrun, if only with one process")
    if options.batch % (int(os.environ.get("WORLD_SIZE", "1")) * options.accumulate):
        parser.error(f"--batch {options.batch} must be a multiple of the number of ranks times --accumulate")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Train to the goal, or until the pod has to leave."""
    options = parse(argv)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else None
    if device is not None:
        torch.cuda.set_device(device)
    if ranks > 1 or options.fsdp:
        dist.init_process_group("gloo" if device is None else "nccl")
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(options, device or torch.device("cpu"), rank, ranks)
    if rank == 0:
        size = trainer.data.windows * options.context / 2**20
        where = device or f"CPU, {torch.get_num_threads()} threads"
        sys.stdout.write(f"{trainer.parameters / 1e6:.1f} M parameters, {size:.1f} MiB of text, {where}\n")
    with Run(
        config=options,
        model=trainer.model,
        optimizer=trainer.optimizer,
        schedule=trainer.schedule,
        data=trainer.data,
    ) as run:
        began, first = time.monotonic(), run.step
        for step in run.steps(options.steps):
            loss = trainer.step(step)
            run.report(loss=loss, samples=options.batch)
            if rank == 0 and (step + 1) % options.show_every == 0:
                show(step + 1, options.steps, loss, (time.monotonic() - began) / (step + 1 - first))
    if sys.stdout.isatty():
        sys.stdout.write("\n")
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


def training(*arguments: str, batch: int | None = None) -> tuple[nn.Module, Callable[[], object]]:
    """For `holdfast-train estimate`: the model, and a step. `arguments`: the options of the training."""
    options = parse([*arguments, *([] if batch is None else [f"--batch={batch}"])])
    trainer = Trainer(options, torch.device("cpu"), 0, 1)
    return trainer.model, partial(trainer.step, 0)


if __name__ == "__main__":
    sys.exit(main())
