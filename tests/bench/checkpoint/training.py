"""A training for benchmarks to disturb: the batch says how long its steps take, and its state is as large as asked."""

import time
from typing import Any, Final

import torch
from torch import nn

WIDTH: Final = 1024
ADAM: Final = 3  # a weight and its two moments


def device_name() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


class Training:
    """A stack of square matrices with AdamW, in float32."""

    def __init__(self, megabytes: float, batch: int, device: str = "cpu") -> None:
        layers = max(1, round(megabytes * 1e6 / (4 * ADAM * WIDTH * WIDTH)))
        self.model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self._x = torch.randn(batch, WIDTH, device=device)
        self.step()  # the optimizer has its state now

    def step(self) -> float:
        """One step; the seconds that it took."""
        began = time.perf_counter()
        self.model(self._x).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self._x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def state(self) -> dict[str, Any]:
        """As DCP and torch.save want it."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self) -> dict[str, torch.Tensor]:
        """As safetensors wants it: the same bytes, flat."""
        state = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, values in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
        return state

    @property
    def size(self) -> int:
        """Bytes of state."""
        return sum(value.numel() * value.itemsize for value in self.tensors().values())
