"""The weights of a package: what is written is all that the model has. The other forms: tests/integration."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from holdfast_train.package import Problem, Tensor
from holdfast_train.package.build import Built, Origin, build

Tensors = dict[str, torch.Tensor]


class Tied(nn.Module):
    """Two layers with the same weight, and a third one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(3, 3, bias=False) for _ in range(3))
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.third(self.second(self.first(x)))
        return made


def made(tmp_path: Path) -> Built:
    problem = Problem(
        model=Tied,
        inputs={"x": Tensor("float32", ("rows", 3))},
        outputs={"y": Tensor("float32", ("rows", 3))},
        dims={"rows": (1, 4)},
        examples=[{"x": np.ones((2, 3), np.float32)}],
    )
    return build(problem, Tied(), Origin("uid", 7, "", ""), tmp_path / "tied", variants=["safetensors"])


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    built = made(tmp_path)
    assert not built.failed
    assert built.package.variants["safetensors"]["note"] == "tied, and written once: second.weight (is first.weight)"
    assert sorted(safetensors.torch.load_file(tmp_path / "tied/safetensors/model.safetensors")) == [
        "first.weight", "third.weight",
    ]  # fmt: skip


# Breaks if a file without a tensor, or with one that is not the model's, passes its test.
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda found: found.pop("third.weight"), "third.weight is missing in the file"),
        (lambda found: found.pop("first.weight"), "first.weight is missing in the file"),
        (lambda found: found.update(more=torch.ones(1)), "more is in the file, and the model has no such tensor"),
        (lambda found: found["first.weight"].add_(1), "first.weight is not what the model has"),
        (lambda found: found.update({"third.weight": found["third.weight"].double()}), "third.weight is not what"),
    ],
)
def test_a_file_that_is_not_the_model_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Tensors], object], why: str
) -> None:
    read = safetensors.torch.load_file

    def damaged(file: Path) -> Tensors:
        found = read(file)
        damage(found)
        return found

    monkeypatch.setattr(safetensors.torch, "load_file", damaged)
    assert made(tmp_path).failed["safetensors"].startswith(why)
