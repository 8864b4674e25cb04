"""Lightning's Trainer with its own ModelCheckpoint and CSVLogger, which begins a folder `version_N` for each start.

Usage: with_lightning.py FOLDER STEPS SECONDS_A_STEP. It resumes from the newest file that it finds. It notes a digest
of its weights at the end.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


folder, steps, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


class Model(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Linear(64, 1))

    def on_train_start(self) -> None:
        note(f"start {self.global_step}")

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        time.sleep(seconds)
        loss = (self.layers(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


class Noting(ModelCheckpoint):
    def _save_checkpoint(self, trainer: Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        note(f"saved {trainer.global_step}")


torch.manual_seed(0)
# Ten batches are an epoch: inside one, Lightning does not resume at the batch, but at the first one.
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8 * 10, 4)), batch_size=8)
found = sorted(folder.glob("exp/version_*/checkpoints/*.ckpt"), key=lambda path: path.stat().st_mtime)
options: dict[str, Any] = {"accelerator": "cpu", "enable_model_summary": False, "log_every_n_steps": 5}
trainer = Trainer(
    max_steps=steps, max_epochs=-1, logger=CSVLogger(folder, name="exp"),
    callbacks=[Noting(every_n_train_steps=10), TQDMProgressBar(refresh_rate=1)], **options,
)  # fmt: skip
model = Model()
trainer.fit(model, data, ckpt_path=found[-1] if found else None, weights_only=False)
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
note(f"result {digest.hexdigest()}")
