"""A Trainer of Lightning for `held_trainer`, with the model and the data of its Hugging Face Trainer."""

import os
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.plugins import MixedPrecision
from tests.support.trainer.frameworks.held_trainer import Setup
from tests.support.trainer.frameworks.trainer_parts import BATCH, Data, Model, OwnSampler
from torch.utils.data import DataLoader, Subset
from torchmetrics import MeanMetric

from holdfast_train.frameworks.lightning import HoldfastCallback


class Module(LightningModule):
    """A rate that each validation after the first one lowers, a mean over the epoch, and a metric of torchmetrics."""

    def __init__(self, write: Callable[[Any], None], after: Callable[[int], None]) -> None:
        super().__init__()
        self.model, self.mean = Model(), MeanMetric()
        self.write, self.after = write, after
        self.logs: list[dict[str, Any]] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.model(**batch)["loss"]
        self.write([self.global_step, self.global_rank, loss.item().hex(), batch["number"].tolist()])
        self.mean(loss.detach())
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log("highest", loss, on_step=False, on_epoch=True, reduce_fx="max")
        self.log("mean", self.mean, on_step=False, on_epoch=True)
        return loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.after(self.global_step)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Draws random numbers, as some validations do."""
        self.log("val_loss", self.model(**batch)["loss"] + torch.rand(()), sync_dist=True)

    def on_train_epoch_end(self) -> None:
        logged = {name: value.item().hex() for name, value in sorted(self.trainer.callback_metrics.items())}
        rate = self.optimizers().param_groups[0]["lr"]
        self.logs.append({"step": self.global_step, "rate": rate} | logged)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=9, threshold_mode="abs")
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}


def train(setup: Setup, write: Callable[[Any], None], after: Callable[[int], None]) -> None:
    """The same output as that of the Hugging Face Trainer. The logs are those of the last epoch."""
    seed_everything(0, verbose=False)
    if setup.processes > 1:
        os.environ["TORCHELASTIC_RUN_ID"] = "test"  # as torchrun does
    data = Data(noisy=setup.noisy)
    order: dict[str, Any] = {"shuffle": True}
    if setup.sampling in ("own", "hidden"):
        order = {"sampler": OwnSampler(hidden=setup.sampling == "hidden")}
    loader: Any = DataLoader(
        data,
        BATCH,
        collate_fn=data.collate,
        num_workers=setup.workers,
        persistent_workers=setup.workers > 0,
        **order,
    )
    scaler = torch.amp.GradScaler("cpu", growth_interval=1)
    trainer = Trainer(
        max_epochs=setup.epochs,
        accumulate_grad_batches=setup.accumulate,
        devices=setup.processes,
        strategy="ddp" if setup.processes > 1 else "auto",
        val_check_interval=3,
        plugins=[MixedPrecision("16-mixed", "cpu", scaler)] if setup.scaled else None,
        callbacks=[HoldfastCallback(), EarlyStopping("val_loss", patience=100)],
        enable_checkpointing=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    module = Module(write, after)
    validated: Any = DataLoader(
        Subset(data, range(8)),
        BATCH,
        collate_fn=data.collate,
        num_workers=min(1, setup.workers),
        persistent_workers=setup.workers > 0,
    )
    trainer.fit(module, loader, validated)
    sums = [value.sum().item().hex() for value in module.state_dict().values()]
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    write({"logs": [*module.logs[-1:], {"step": trainer.global_step, "weights": sums, "rate": rate}]})
