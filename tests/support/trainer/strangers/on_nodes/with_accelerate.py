"""A loop with Accelerate, whose `save_state` names and deletes the folders `checkpoints/checkpoint_N` by itself.

`rank-0`: rank 0 writes what all ranks have. `each-node`: rank 0 of each node does, with the option `save_on_each_node`.
`sharded`: each rank writes its part of the model and of the optimizer, with FSDP.
"""

from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import ProjectConfiguration
from tests.support.trainer.strangers.on_nodes.notes import Notes

STEPS, EVERY = 8, 2


class Position:
    """Of the training."""

    step = 0

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = state["step"]


def main(mode: str, root: str, place: str, holds: str) -> None:
    """Train."""
    notes, position = Notes(place, holds), Position()
    project = ProjectConfiguration(
        root, automatic_checkpoint_naming=True, total_limit=2, save_on_each_node=mode == "each-node"
    )
    plugin = None
    if mode == "sharded":
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
    accelerator = Accelerator(cpu=True, project_config=project, fsdp_plugin=plugin)
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(8 * STEPS, 4))
    layers: Any = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    adam: Any = torch.optim.AdamW(layers.parameters(), lr=0.01)
    loader: Any = torch.utils.data.DataLoader(data, batch_size=4)
    model, optimizer, loader = accelerator.prepare(layers, adam, loader)
    accelerator.register_for_checkpointing(position)
    if saved := list(Path(root).glob("checkpoints/checkpoint_*")):
        accelerator.load_state()
        project.iteration = max(int(path.name.removeprefix("checkpoint_")) for path in saved) + 1
    notes.start(position.step)
    notes.random()
    for step, (inputs,) in enumerate(accelerator.skip_first_batches(loader, position.step), position.step + 1):
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        notes.loss(step, loss.item())
        if step % EVERY == 0:
            position.step = step
            accelerator.save_state()
            notes.saved(step)
    values = model.state_dict().values()
    notes.result(value.to_local() if hasattr(value, "to_local") else value for value in values)
    accelerator.end_training()
