"""The Trainer of `held_trainer`: a tiny model, data that may be noisy, and samplers of a program."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup
from torch.utils.data import Dataset, Sampler, Subset
from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator

BATCH = 4


class Data(Dataset[Any]):
    """The samples have different lengths, for `group_by_length`. A noisy one is another one each time: by global
    generators, and by two of its own if it `carries` them, of which one is made late."""

    def __init__(self, *, noisy: bool, carries: bool = True) -> None:
        self.noisy, self.carries = noisy, carries
        self.own = random.Random(5)
        self.late: torch.Generator | None = None

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number >= SAMPLES:
            raise IndexError(number)
        inputs = torch.randn(4, generator=torch.Generator().manual_seed(number))
        if self.noisy:
            inputs += random.random() + (self.own.random() if self.carries else 0.0)
        return {"number": number, "inputs": inputs, "labels": inputs.sum(), "input_ids": [0] * (number % 7 + 1)}

    def collate(self, samples: list[dict[str, Any]]) -> Any:
        found = default_data_collator([{k: v for k, v in x.items() if k != "input_ids"} for x in samples])
        if self.noisy:
            found["inputs"] += torch.rand(1)
        if self.noisy and self.carries:
            self.late = torch.Generator() if self.late is None else self.late
            found["inputs"] += torch.rand(1, generator=self.late)
        return found


class Model(torch.nn.Module):
    """The loss is not a number from the batch on that the variable `POISON` names, as after a step that spoils it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
        self.good = int(os.environ.get("POISON", "1000000"))

    def forward(self, inputs: Any, labels: Any, number: Any) -> dict[str, Any]:
        found = self.last(torch.nn.functional.dropout(self.first(inputs), 0.2, training=self.training))
        self.good -= int(self.training)
        scale = 1.0 if self.good > 0 else float("nan")
        return {"loss": (found.squeeze(-1) - labels).square().mean() * scale, "logits": found}


class OwnSampler(Sampler[int]):
    """Draws its order from a generator of its own, or (if `hidden`) from one that no checkpoint can have."""

    def __init__(self, *, hidden: bool) -> None:
        self.source: Any = os.urandom if hidden else random.Random(1)

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        seed = self.source(8) if callable(self.source) else self.source.random()
        return iter(random.Random(seed).sample(range(SAMPLES), SAMPLES))


class After(TrainerCallback):
    """Calls `after` with the step whose gradients are computed."""

    def __init__(self, after: Callable[[int], None]) -> None:
        self.after = after

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.after(state.global_step)


def make_trainer(setup: Setup, folder: Path, write: Callable[[Any], None], after: Callable[[int], None]) -> Any:
    """The Trainer. `write` is given a line for each batch, `after` the step whose last batch was computed."""

    class Noting(Trainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
            found = super().compute_loss(model, inputs, *args, **options)
            if model.training:
                loss = found[0] if isinstance(found, tuple) else found
                write([self.state.global_step, self.args.process_index, loss.item().hex(), inputs["number"].tolist()])
            return found

        def _get_train_sampler(self, *args: Any) -> Any:
            is_own = setup.sampling in ("own", "hidden")
            return OwnSampler(hidden=setup.sampling == "hidden") if is_own else super()._get_train_sampler(*args)

    torch.manual_seed(0)
    data = Data(noisy=setup.noisy)
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=setup.epochs,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=setup.accumulate,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="no",
        learning_rate=0.01,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        train_sampling_strategy="random" if setup.sampling in ("own", "hidden") else setup.sampling,
        dataloader_num_workers=setup.workers,
        dataloader_persistent_workers=setup.workers > 0,
        **({"fsdp": True, "fsdp_config": {"version": 2, "reshard_after_forward": True}} if setup.fsdp else {}),
    )
    return Noting(
        model=Model(),
        args=arguments,
        train_dataset=data,
        eval_dataset=Subset(data, range(8)),
        data_collator=data.collate,
        callbacks=[After(after)],
    )
