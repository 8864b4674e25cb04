"""A program that knows nothing of Holdfast: `python -m tests.bench.unchanged_program FOLDER STEPS TIMES`.

Hugging Face's Trainer with a model of some milliseconds a step, which logs each step and saves every 50 steps. It
writes the milliseconds of each step into the file TIMES, as JSON.
"""

import json
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

SIZE, BATCH = 512, 64
SAVE_STEPS = 50


class Model(torch.nn.Module):
    """Enough work for more than 10 ms a step on one core."""

    def __init__(self) -> None:
        super().__init__()
        layers = [layer for _ in range(6) for layer in (torch.nn.Linear(SIZE, SIZE), torch.nn.Tanh())]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(SIZE, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss."""
        found = self.layers(inputs)
        return {"loss": (found - labels).square().mean(), "logits": found}


class Clock(TrainerCallback):
    """The time from one step's begin to the next one's: with its log, and what callbacks do at its end."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Note the time."""
        self.begun.append(perf_counter_ns())


def main(folder: str, steps: str, times: str) -> None:
    """Train."""
    torch.manual_seed(0)
    inputs = torch.randn(BATCH * 4, SIZE)
    data = [{"inputs": x, "labels": x.sum(0, keepdim=True)} for x in inputs]
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=int(steps),
        per_device_train_batch_size=BATCH,
        logging_steps=1,
        save_steps=SAVE_STEPS,
        save_total_limit=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    clock = Clock()
    Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[clock]).train()
    taken = [(b - a) / 1e6 for a, b in zip(clock.begun, clock.begun[1:], strict=False)]
    Path(times).write_text(json.dumps(taken), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
