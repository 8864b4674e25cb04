"""A vision transformer that learns to name pictures: model, loss, accuracy and training loop, from top to bottom.

python -m holdfast_train.examples.vision_transformer --steps 600
torchrun --nproc-per-node 2 -m holdfast_train.examples.vision_transformer --data pictures

Source of the model: Dosovitskiy and others, "An Image is Worth 16x16 Words", 2020, with the mean over all patches in
place of a class token.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.parallel import DistributedDataParallel

from holdfast_train import ElasticSampler, Run
from holdfast_train.examples.images import Pictures, open_images

if TYPE_CHECKING:
    from holdfast_model import package as packages


@dataclass(frozen=True)
class Shape:
    """Size of the model. `image` and `patch`: sides of a picture and of the pieces that it is cut into, in pixels."""

    image: int = 32
    patch: int = 4
    dim: int = 96
    layers: int = 4
    heads: int = 4
    classes: int = 10


class Block(nn.Module):
    """Pre-norm: attention between all patches, then a feed-forward for each; both add to the residual stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.dim)
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim)
        self.out = nn.Linear(shape.dim, shape.dim)
        self.feed_norm = nn.LayerNorm(shape.dim)
        self.feed = nn.Sequential(
            nn.Linear(shape.dim, 4 * shape.dim), nn.GELU(approximate="tanh"), nn.Linear(4 * shape.dim, shape.dim)
        )

    def forward(self, x: Tensor) -> Tensor:  # (batch, patches, dim)
        batch, length, dim = x.shape
        projected = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = projected.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, dim))
        out: Tensor = x + self.feed(self.feed_norm(x))
        return out


class VisionTransformer(nn.Module):
    """Pictures in, one logit for each class out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        patches = (shape.image // shape.patch) ** 2
        self.cut = nn.Conv2d(3, shape.dim, shape.patch, stride=shape.patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, patches, shape.dim))
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.dim)
        self.head = nn.Linear(shape.dim, shape.classes)

    def forward(self, images: Tensor) -> Tensor:  # (batch, 3, image, image) -> (batch, classes)
        x = self.cut(images).flatten(2).transpose(1, 2) + self.positions
        out: Tensor = self.head(self.norm(self.blocks(x)).mean(dim=1))
        return out


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    """Train one step. Return the loss, on the device."""
    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss


@torch.no_grad()
def accuracy(model: nn.Module, data: Pictures, device: torch.device) -> float:
    """The share of pictures that the model names rightly."""
    model.eval()
    right = 0
    for begin in range(0, len(data), 100):
        images, labels = zip(*(data[number] for number in range(begin, min(begin + 100, len(data)))), strict=True)
        right += int((model(torch.stack(images).to(device)).argmax(1).cpu() == torch.tensor(labels)).sum())
    model.train()
    return right / len(data)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options. The default of `--steps` is the job's goal."""
    parser = argparse.ArgumentParser(
        prog="python -m holdfast_train.examples.vision_transformer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    goal = int(os.environ.get("HOLDFAST_GOAL_STEPS") or 600)
    parser.add_argument("--steps", type=int, default=goal, help=f"train up to this step (default {goal})")
    parser.add_argument("--data", help="folder with train/CLASS/ and test/CLASS/ (default: stripes that are made here)")
    parser.add_argument("--image", type=int, default=32, help="side of a picture in pixels (default 32)")
    parser.add_argument("--patch", type=int, default=4, help="side of a patch in pixels (default 4)")
    parser.add_argument("--dim", type=int, default=96, help="width of the model (default 96)")
    parser.add_argument("--layers", type=int, default=4, help="number of blocks (default 4)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads of a block (default 4)")
    parser.add_argument("--batch", type=int, default=32, help="pictures in a step, over all ranks (default 32)")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--evaluate-every", type=int, default=100, help="steps between two tests of the accuracy")
    parser.add_argument("--show-every", type=int, default=100, help="steps between two printed losses (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.image % options.patch:
        parser.error(f"--image {options.image} must be a multiple of --patch {options.patch}")
    if options.dim % options.heads:
        parser.error(f"--dim {options.dim} must be a multiple of --heads {options.heads}")
    if options.batch % int(os.environ.get("WORLD_SIZE", "1")):
        parser.error(f"--batch {options.batch} must be a multiple of the number of ranks")
    return options


def shape_of(options: argparse.Namespace, classes: int) -> Shape:
    """The model that the options ask for."""
    return Shape(options.image, options.patch, options.dim, options.layers, options.heads, classes)


def main(argv: Sequence[str] | None = None) -> int:
    """Train to the goal, or until the pod has to leave."""
    options = parse(argv)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if ranks > 1:
        dist.init_process_group("gloo" if device.type == "cpu" else "nccl")
    train, test, classes = open_images(options.data, options.image)
    torch.manual_seed(options.seed)
    plain = VisionTransformer(shape_of(options, len(classes))).to(device)
    model = DistributedDataParallel(plain) if ranks > 1 else plain
    optimizer = torch.optim.AdamW(plain.parameters(), lr=options.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, options.steps)
    sampler = ElasticSampler(train, batch=options.batch, seed=options.seed)
    loader = sampler.loader(train)
    with Run(config=options, model=model, optimizer=optimizer, schedule=schedule, data=sampler) as run:
        for step, (images, labels) in zip(run.steps(options.steps), loader, strict=False):
            loss = learn(model, optimizer, images.to(device), labels.to(device))
            schedule.step()
            found = None
            if (step + 1) % options.evaluate_every == 0 or step + 1 == options.steps:
                found = {"accuracy": accuracy(plain, test, device)}
            if rank == 0 and (found or (step + 1) % options.show_every == 0):
                named = f"  {found['accuracy']:.1%}" if found else ""
                sys.stdout.write(f"step {step + 1:6d}/{options.steps}  loss {loss:.4f}{named}\n")
                sys.stdout.flush()
            run.report(loss=loss, samples=options.batch, metrics=found)
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


def training(*arguments: str, batch: int | None = None) -> tuple[nn.Module, Callable[[], object]]:
    """For `holdfast-train estimate`: the model, and a step. `arguments`: the options of the training."""
    options = parse([*arguments, *([] if batch is None else [f"--batch={batch}"])])
    _, _, classes = open_images(options.data, options.image)
    model = VisionTransformer(shape_of(options, len(classes)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.05)
    images = torch.zeros(options.batch, 3, options.image, options.image)
    labels = torch.zeros(options.batch, dtype=torch.int64)
    return model, partial(learn, model, optimizer, images, labels)


def problem(*arguments: str) -> "packages.Problem":
    """For `holdfast-train package`: what goes into the model, what comes out, and how good it is.

    `arguments`: the options of the training that say how large the model is, and where its pictures are.
    """
    from holdfast_model import package as packages  # noqa: PLC0415 - holdfast-model: a training runs without it

    options = parse(arguments)
    train, test, classes = open_images(options.data, options.image)

    def pictures(data: Pictures, begin: int, count: int) -> packages.Arrays:
        return {"images": np.stack([data[number][0].numpy() for number in range(begin, begin + count)])}

    tested = min(400, len(test))
    labels = np.array([test[number][1] for number in range(tested)])

    def measure(model: packages.Call) -> float:
        parts = [model(pictures(test, begin, min(50, tested - begin)))["logits"] for begin in range(0, tested, 50)]
        return float(np.mean(np.concatenate(parts).argmax(1) == labels))

    side = options.image
    return packages.Problem(
        model=lambda: VisionTransformer(shape_of(options, len(classes))),
        inputs={"images": packages.Tensor("float32", ("batch", 3, side, side))},
        outputs={"logits": packages.Tensor("float32", ("batch", len(classes)))},
        dims={"batch": (1, 64)},
        examples=[pictures(test, 0, 4)],
        calibration=lambda: [pictures(train, 16 * number, 16) for number in range(8)],
        score=packages.Score("accuracy", measure, max_drop=0.01, samples=tested),
        classes=classes,
        pixels=packages.Pixels(mean=(0.5,), std=(0.5,)),
    )


if __name__ == "__main__":
    sys.exit(main())
