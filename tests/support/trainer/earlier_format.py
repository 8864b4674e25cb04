"""What the checkpoints in `checkpoint_format_4/` hold.

Holdfast 0.1.0 wrote them (manifests and log records of version 4): the steps 1 and 2 of attempt 1, which was
killed after that. All numbers are small, so that their arithmetic is exact on every machine.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["FOLDER", "STEPS", "Notes", "make", "train"]

FOLDER = Path(__file__).with_name("checkpoint_format_4")
STEPS = (1, 2)


class Notes:
    """Values of other kinds than tensors of a model."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        return self.value

    def load_state_dict(self, state: Any) -> None:
        """From its state."""
        self.value = dict(state)


def make() -> dict[str, Any]:
    """The objects of the run, at step 0."""
    model = torch.nn.Linear(8, 8)
    with torch.no_grad():
        model.weight.copy_(torch.arange(64.0).view(8, 8))
        model.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    return {"model": model, "optimizer": optimizer, "notes": Notes()}


def train(objects: dict[str, Any], step: int) -> None:
    """Do step number `step`, the first of which is 1."""
    for parameter in objects["model"].parameters():
        parameter.grad = torch.ones_like(parameter)
    objects["optimizer"].step()
    numbers = np.arange(5, dtype=np.int32) * step
    objects["notes"].value = {"array": numbers, "blob": bytes(range(256)) * 8, "pair": (step, None)}
