"""A model of FSDP2 and torch.distributed.checkpoint, as its tutorial shows it: each rank writes its part, and rank 0
the file `.metadata`."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.support.trainer.strangers.on_nodes.notes import Notes
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS, EVERY = 8, 2


class AppState(Stateful):
    """Model, optimizer and step."""

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state_dict["model"], optim_state_dict=state_dict["optimizer"]
        )
        self.step = state_dict["step"]


def main(root: str, place: str, holds: str) -> None:
    """Train."""
    notes, folder = Notes(place, holds), Path(root)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model: Any = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    state = AppState(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    saved = sorted(folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    if saved:
        load({"app": state}, checkpoint_id=saved[-1])
    notes.start(state.step)
    for step in range(state.step + 1, STEPS + 1):
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(1000 * step + rank))
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step = step
        notes.loss(step, loss.item())
        if step % EVERY == 0:
            save({"app": state}, checkpoint_id=folder / f"step-{step}")
            notes.saved(step)
    notes.result(value.to_local() for value in model.state_dict().values())
    dist.destroy_process_group()
