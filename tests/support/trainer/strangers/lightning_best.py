"""Lightning with the two best checkpoints and the last one: the program tests its best one at the end.

Usage: lightning_best.py FOLDER STEPS SECONDS_A_STEP. It notes a digest of the weights that it has tested.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 1))

    def on_train_start(self) -> None:
        note(f"start {self.global_step}")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        time.sleep(seconds)
        self.log("worse", float(self.global_step))
        return (self.layers(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        """Nothing: the weights are what counts."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


class Noting(ModelCheckpoint):
    def on_train_batch_end(self, trainer: Trainer, *rest: Any) -> None:
        super().on_train_batch_end(trainer, *rest)
        if trainer.global_step % 10 == 0:
            note(f"saved {trainer.global_step}")


torch.manual_seed(0)
# Ten batches are an epoch: inside one, Lightning does not resume at the batch, but at the first one.
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8 * 10, 4)), batch_size=8)
best = Noting(folder, every_n_train_steps=10, save_top_k=2, monitor="worse", mode="min", save_last=True)
options: dict[str, Any] = {"accelerator": "cpu", "enable_model_summary": False, "enable_progress_bar": False}
trainer = Trainer(max_steps=steps, max_epochs=-1, logger=False, callbacks=[best], **options)
model = Model()
last = folder / "last.ckpt"
trainer.fit(model, data, ckpt_path=last if last.exists() else None, weights_only=False)
trainer.test(model, data, ckpt_path="best", weights_only=False)
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
note(f"result {Path(best.best_model_path).name} {digest.hexdigest()}")
