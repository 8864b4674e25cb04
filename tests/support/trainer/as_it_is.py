"""A training with Hugging Face's Trainer, as its documentation shows it: it knows nothing of Holdfast.

Usage: as_it_is.py FOLDER STEPS SECONDS_A_STEP [jit]. It saves every $SAVE_STEPS steps, keeps the newest checkpoint,
and resumes from it. With `jit` it also saves on SIGTERM, by the Trainer's own just-in-time checkpoint. At the end it
prints the losses of all steps and a digest of its weights.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


def note(text: str) -> None:
    """Append a line to the file that the test reads: output of a pod that is gone is gone."""
    if path := os.environ.get("NOTES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


class Model(torch.nn.Module):
    """A tiny model whose dropout needs the state of the random numbers."""

    def __init__(self, seconds: float, dropout: float) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(dropout), torch.nn.Linear(64, 1))
        self.seconds = seconds

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss."""
        time.sleep(self.seconds)  # the work of a real model
        note("step")
        found = self.layers(inputs)
        return {"loss": (found - labels).square().mean(), "logits": found}


def main(folder: str, steps: str, seconds: str, mode: str = "") -> None:
    """Train."""
    note("start")
    torch.manual_seed(0)
    inputs = torch.randn(128, 4)
    data = [{"inputs": x, "labels": x.sum(0, keepdim=True)} for x in inputs]
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=int(steps),
        per_device_train_batch_size=4,
        logging_steps=1,
        save_steps=int(os.environ["SAVE_STEPS"]),
        save_total_limit=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        enable_jit_checkpoint=mode == "jit",
    )
    # On SIGTERM the Trainer saves the random numbers of the middle of a step: with dropout it resumes with others.
    model = Model(float(seconds), dropout=0.0 if mode == "jit" else 0.3)
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if Path(folder).is_dir() else None)
    losses = {entry["step"]: entry["loss"] for entry in trainer.state.log_history if "loss" in entry}
    digest = hashlib.sha256()
    for value in trainer.model.state_dict().values():
        digest.update(value.numpy().tobytes())
    print("RESULT", json.dumps([list(losses.items()), digest.hexdigest()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
