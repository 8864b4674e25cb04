"""A training of seconds whose model can be packaged: `python packaged.py`, and `packaged:problem`."""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from holdfast_model.package import Problem, Tensor
from holdfast_train import Run


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def problem(begun: str, go: str) -> Problem:
    """Waits for the file `go`, so that a test can take the node away meanwhile. `begun` gets a byte at each start."""
    with Path(begun).open("ab") as file:
        file.write(b".")
    while not Path(go).exists():
        time.sleep(0.05)
    return Problem(
        model=make_model,
        inputs={"x": Tensor("float32", ("rows", 4))},
        outputs={"logits": Tensor("float32", ("rows", 2))},
        dims={"rows": (1, 4)},
        examples=[{"x": np.ones((2, 4), np.float32)}],
    )


def main(steps: int) -> None:
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Run(model=model, optimizer=optimizer) as run:
        for _ in run.steps(steps):
            loss = model(torch.ones(2, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss=loss, samples=2)


if __name__ == "__main__":
    main(int(sys.argv[1]))
