"""torch's own Stateful, as its tutorials have it: one object that gathers model and optimizer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.support.free_ports import free_port
from tests.support.trainer.inside import settle
from tests.support.trainer.stores import environment
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from holdfast_train import Run


class App(Stateful):
    """As in torch's recipe for torch.distributed.checkpoint."""

    def __init__(self, *, sharded: bool) -> None:
        self.model: Any = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
        if sharded:
            fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def train(self) -> float:
        loss = self.model(torch.ones(3, 4)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.item())


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def losses(app: App, uri: str, attempt: int, stop: int) -> list[float]:
    found = []
    with Run(app=app, environment=environment(uri, attempt)) as run:
        for step in run.steps(8):
            if step == stop:
                break
            found.append(app.train())
        if run.step == stop:
            assert run.save()
            run.left = True
        settle(run)
    return found


@pytest.mark.parametrize("sharded", [False, True])
def test_it_is_saved_and_resumed_as_it_is(tmp_path: Path, group: None, sharded: bool) -> None:
    torch.manual_seed(1)
    whole = losses(App(sharded=sharded), f"file://{tmp_path}/whole", 1, 99)
    torch.manual_seed(1)
    first = losses(App(sharded=sharded), f"file://{tmp_path}/parts", 1, 5)
    again = App(sharded=sharded)
    assert first + losses(again, f"file://{tmp_path}/parts", 2, 99) == whole
    assert len(whole) == 8
    assert isinstance(again.model[0].weight, DTensor) == sharded
