"""States, files and commands for tests of holdfast-train export and import."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer import stores
from tests.support.trainer.stores import identity
from torch import nn

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.exchange.command import main
from holdfast_train.storage.folder import FolderStorage

FORMATS = ("safetensors", "dcp", "torch")


class Net(nn.Module):
    """A model with a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.layer(self.embed(x)))


def varied_state() -> dict[str, Any]:
    """A state with every kind of value that a checkpoint can contain."""
    torch.manual_seed(5)
    shared = torch.randn(7, 3)
    return {
        "model": {
            "half/slash": torch.randn(5).to(torch.bfloat16),
            "eighth": torch.randn(9).to(torch.float8_e4m3fn),
            "other.eighth": torch.randn(9).to(torch.float8_e5m2),
            "scalar": torch.tensor(2**62),
            "none": torch.empty(0, 3),
            "turned": torch.arange(12.0).reshape(3, 4).t(),
            "flags": torch.tensor([True, False]),
            "tied": shared,
            "tied too": shared,
            "complex": torch.randn(3, dtype=torch.complex64),
        },
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0), "m": torch.randn(2, 2)}, 1: {}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, math.inf), "params": [0, 1], "dtype": torch.bfloat16}],
            "nested": [torch.ones(2), (torch.zeros(1), {"deep": torch.ones(1, dtype=torch.int8)})],
        },
        "data": {
            "blob": bytes(range(256)) * 40,
            "order": np.arange(6, dtype=">i4").reshape(2, 3),
            "names": np.array(["ab", "c"]),
            "one": np.float32(1.5),
            "none": np.zeros((0, 2)),
            "raw": b"\0\1",
            "buffer": [(np.arange(n % 3), torch.full((2,), float(n)), n, "x", None) for n in range(600)],
        },
    }


def assert_same(first: Any, second: Any, path: str = "") -> None:
    """Both are equal bit for bit, with the same types, keys and order of keys."""
    assert type(first) is type(second), path
    if isinstance(first, dict):
        assert list(first) == list(second), path
        for key in first:
            assert_same(first[key], second[key], f"{path}/{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), path
        for number, pair in enumerate(zip(first, second, strict=True)):
            assert_same(*pair, f"{path}/{number}")
    elif isinstance(first, torch.Tensor):
        assert (first.dtype, first.shape) == (second.dtype, second.shape), path
        bits = [one.contiguous().reshape(-1).view(torch.uint8) for one in (first, second)]
        assert torch.equal(*bits), path
    elif isinstance(first, np.ndarray | np.generic):
        assert (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes()), path
    else:
        assert first == second, path


def save(prefix: Path, objects: dict[str, Any], *steps: int) -> None:
    """Save `objects` at each of `steps`."""
    checkpoints = Checkpoints(FolderStorage(prefix), identity(len(steps)), Keep(9))
    checkpoints.start("Auto")
    for step in steps:
        stores.save(checkpoints, step, {"objects": objects}, [{"rng": 1}])


def train(prefix: Path) -> tuple[Net, torch.optim.Optimizer]:
    """A model and an optimizer that were saved at step 4."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(4):
        net(torch.arange(11)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    save(prefix, {"model": net.state_dict(), "optimizer": optimizer.state_dict()}, 4)
    return net, optimizer


def run(*args: Any) -> None:
    """Run a command, which succeeds."""
    assert main([str(arg) for arg in args]) == 0


def fails(capsys: pytest.CaptureFixture[str], *args: Any, code: int = 1) -> str:
    """Run a command, which ends with `code`. Return what it writes to standard error."""
    capsys.readouterr()
    assert main([str(arg) for arg in args]) == code
    return capsys.readouterr().err


Normal = tuple[list[str], dict[str, Any], bytes]


def normal(file: Path) -> Normal:
    """A safetensors file: the order of its tensors, its header and its data.

    Two files are equal if these are: the library draws the order of the metadata again for each file.
    """
    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    assert end % 8 == 0
    header = json.loads(data[8:end])
    return list(header), header, data[end:]


def junk(tmp_path: Path, name: str, content: bytes = b"junk") -> Path:
    """A new file that is not of any format."""
    (tmp_path / name).write_bytes(content)
    return tmp_path / name
