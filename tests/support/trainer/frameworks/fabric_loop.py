"""A loop with Lightning Fabric for `held_trainer`, with the model and the data of its Trainer."""

import os
from collections.abc import Callable
from typing import Any

import torch
from lightning.fabric import Fabric, seed_everything
from lightning.fabric.plugins import MixedPrecision
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup
from tests.support.trainer.frameworks.trainer_parts import BATCH, Data, Model, OwnSampler
from torch.utils.data import DataLoader, Subset

from holdfast_train.frameworks.fabric import FabricRun


def train(setup: Setup, write: Callable[[Any], None], after: Callable[[int], None]) -> None:
    """The same output as that of the Trainer. The logs are the evaluations and the rate."""
    seed_everything(0, verbose=False)
    if setup.processes > 1:
        os.environ["TORCHELASTIC_RUN_ID"] = "test"  # as torchrun does
    fabric = Fabric(
        accelerator="cpu",
        devices=setup.processes,
        strategy="ddp" if setup.processes > 1 else "auto",
        plugins=[MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", growth_interval=1))]
        if setup.scaled
        else None,
    )
    fabric.launch()
    data = Data(noisy=setup.noisy)
    order: dict[str, Any] = {"shuffle": True}
    if setup.sampling in ("own", "hidden"):
        order = {"sampler": OwnSampler(hidden=setup.sampling == "hidden")}
    loader: Any = DataLoader(data, BATCH, collate_fn=data.collate, num_workers=setup.workers, **order)
    few = Data(noisy=setup.noisy, carries=False)  # Fabric does not say which loaders there are
    evaluated: Any = DataLoader(Subset(few, range(8)), BATCH, collate_fn=few.collate)
    plain = Model()
    model, optimizer = fabric.setup(plain, torch.optim.AdamW(plain.parameters(), lr=0.01))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, SAMPLES * setup.epochs)
    loader, evaluated = fabric.setup_dataloaders(loader, evaluated)
    losses: list[float] = []
    objects: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    with FabricRun(fabric, loader, accumulate=setup.accumulate, **objects) as run:
        for _ in run.epochs(setup.epochs):
            for batch in run.batches():
                with fabric.no_backward_sync(model, enabled=run.is_accumulating):
                    loss = model(**batch)["loss"]
                    write([run.step, fabric.global_rank, loss.item().hex(), batch["number"].tolist()])
                    fabric.backward(loss)
                if not run.is_accumulating:
                    after(run.step)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                run.report(loss=loss, samples=len(batch["number"]))
            model.eval()
            with torch.no_grad():
                losses = [model(**batch)["loss"].item() for batch in evaluated]
            model.train()
            run.report(metrics={"eval_loss": sum(losses)})
    write({"logs": [{"step": run.step, "rate": schedule.get_last_lr(), "last": sum(losses)}]})
