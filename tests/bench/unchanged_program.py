"""A program that knows nothing of Holdfast: `python -m tests.bench.unchanged_program FOLDER STEPS TIMES SAVES`.

Hugging Face's Trainer with a model of some milliseconds a step, which logs each step and saves every SAVES steps. It
writes the time at which each step began into the file TIMES, as JSON, in nanoseconds of the clock of all processes. It
ends after STEPS steps, or as soon as there is a file TIMES with `.end` behind it.
"""

import json
import sys
from pathlib import Path
from time import monotonic_ns
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainingArguments

SIZE, BATCH = 512, 64


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

    def __init__(self, end: Path) -> None:
        self.begun: list[int] = []
        self._end = end

    def on_step_begin(self, *known: Any, **_: Any) -> None:
        """Note the time."""
        control: TrainerControl = known[2]
        self.begun.append(monotonic_ns())
        control.should_training_stop = control.should_training_stop or self._end.exists()


def main(folder: str, steps: str, times: str, saves: str) -> None:
    """Train."""
    torch.manual_seed(0)
    inputs = torch.randn(BATCH * 4, SIZE)
    data = [{"inputs": x, "labels": x.sum(0, keepdim=True)} for x in inputs]
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=int(steps),
        per_device_train_batch_size=BATCH,
        logging_steps=1,
        save_steps=int(saves),
        save_total_limit=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    clock = Clock(Path(f"{times}.end"))
    Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[clock]).train()
    new = Path(f"{times}.new")
    new.write_text(json.dumps(clock.begun), encoding="utf-8")
    new.replace(times)


if __name__ == "__main__":
    main(*sys.argv[1:])
