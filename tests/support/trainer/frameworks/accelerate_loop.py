"""A loop with Accelerate for `held_trainer`, with the model and the data of its Trainer."""

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, set_seed
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup
from tests.support.trainer.frameworks.trainer_parts import BATCH, Data, Model, OwnSampler
from torch.utils.data import DataLoader, Subset

from holdfast_train.frameworks.accelerate import AcceleratedRun


def train(setup: Setup, write: Callable[[Any], None], after: Callable[[int], None]) -> None:
    """The same output as that of the Trainer. The logs are the evaluations, and numbers of a registered object."""
    set_seed(0)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2) if setup.fsdp else None
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=setup.accumulate, fsdp_plugin=plugin)
    data = Data(noisy=setup.noisy)
    order: dict[str, Any] = {"shuffle": True}
    if setup.sampling in ("own", "hidden"):
        order = {"sampler": OwnSampler(hidden=setup.sampling == "hidden")}
    loader: Any = DataLoader(
        data, BATCH, collate_fn=data.collate, num_workers=setup.workers, persistent_workers=setup.workers > 0, **order
    )
    workers: dict[str, Any] = {"num_workers": min(1, setup.workers), "persistent_workers": setup.workers > 0}
    validated: Any = DataLoader(Subset(data, range(8)), BATCH, collate_fn=data.collate, **workers)
    model: Any = Model()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule: Any = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, SAMPLES * setup.epochs)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    validated = accelerator.prepare(validated)
    losses: list[float] = []
    with AcceleratedRun(accelerator, loader) as run:
        for epoch in run.epochs(setup.epochs):
            for batch in run.batches():
                with accelerator.accumulate(model):
                    loss = model(**batch)["loss"]
                    write([run.step, accelerator.process_index, loss.item().hex(), batch["number"].tolist()])
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        after(run.step)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
                run.report(loss=loss, samples=len(batch["number"]))
            model.eval()
            with torch.no_grad():
                losses = [model(**batch)["loss"].item() for batch in validated]
            model.train()
            run.report(metrics={"eval_loss": sum(losses)})
            print(f"epoch {epoch}: {sum(losses)}", flush=True)
    write({"logs": [{"step": run.step, "rate": schedule.get_last_lr(), "last": sum(losses)}]})
