"""Lightning's Trainer, whose ModelCheckpoint keeps the best checkpoint and the last one.

An epoch has two steps, and a save is at its end: inside an epoch Lightning does not resume at the batch.
`ddp`: rank 0 writes. `sharded`: each rank writes its part into a folder, with ModelParallelStrategy.
"""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy, Strategy
from tests.support.trainer.strangers.on_nodes.notes import Notes
from torch.distributed.fsdp import fully_shard

STEPS, EVERY = 8, 2


class Module(LightningModule):
    def __init__(self, notes: Notes, mode: str) -> None:
        super().__init__()
        self.layers: Any = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self._notes, self._mode = notes, mode

    def configure_model(self) -> None:
        if self._mode == "sharded" and self.device_mesh is not None:
            for layer in (self.layers[0], self.layers[2], self.layers):
                fully_shard(layer, mesh=self.device_mesh["data_parallel"])

    def on_train_start(self) -> None:
        self._notes.start(self.global_step)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss: torch.Tensor = (self.layers(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()
        self.log("worse", float(self.global_step))
        self._notes.loss(self.global_step + 1, loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Tells(Callback):
    def __init__(self, notes: Notes) -> None:
        self._notes, self._first = notes, 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._first = trainer.global_step

    def on_train_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        """The checkpoint of the epoch before is there."""
        if trainer.global_step > self._first:
            self._notes.saved(trainer.global_step)


def main(mode: str, root: str, place: str, holds: str) -> None:
    """Train."""
    notes = Notes(place, holds)
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(16, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=False)
    best = ModelCheckpoint(root, "best-{step}", monitor="worse", mode="min", every_n_train_steps=EVERY)
    newest = ModelCheckpoint(root, "newest-{step}", save_last=True, every_n_train_steps=EVERY)
    strategy: str | Strategy = "ddp" if mode == "ddp" else ModelParallelStrategy(data_parallel_size=2)
    trainer = Trainer(
        num_nodes=2, devices=1, accelerator="cpu", strategy=strategy, max_steps=STEPS, max_epochs=-1, logger=False,
        callbacks=[best, newest, Tells(notes)], enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    module, last = Module(notes, mode), Path(root) / "last.ckpt"
    trainer.fit(module, loader, ckpt_path=last if last.exists() else None, weights_only=False)
    values = module.state_dict().values()
    notes.result(value.to_local() if hasattr(value, "to_local") else value for value in values)
    notes.write(f"best {Path(best.best_model_path).name}")
