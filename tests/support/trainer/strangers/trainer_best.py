"""The Trainer of Hugging Face with `load_best_model_at_end`: the best model is an early one, and is kept all the time.

Usage: trainer_best.py FOLDER STEPS SECONDS_A_STEP. It notes a digest of its weights at the end.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

folder, steps, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


def note(text: str) -> None:
    """Append a line to the file that the test reads."""
    with Path(os.environ.get("NOTES", os.devnull)).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


class Model(torch.nn.Module):
    """Training makes the weight larger, and the best one is that of step 10."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss."""
        loss = (self.weight - 0.1).abs().sum() if not self.training else -self.weight.sum() + 0 * inputs.sum()
        return {"loss": loss, "logits": inputs}


class Notes(TrainerCallback):
    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        note(f"start {state.global_step}")

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        time.sleep(seconds)

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        note(f"saved {state.global_step}")


arguments = TrainingArguments(
    folder, max_steps=steps, learning_rate=0.01, lr_scheduler_type="constant", optim="sgd", max_grad_norm=0,
    eval_strategy="steps", eval_steps=10, save_steps=10, save_total_limit=2, load_best_model_at_end=True,
    metric_for_best_model="loss", greater_is_better=False, report_to="none", use_cpu=True, disable_tqdm=True,
)  # fmt: skip
data = [{"inputs": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
trainer = Trainer(model=Model(), args=arguments, train_dataset=data, eval_dataset=data, callbacks=[Notes()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
values = trainer.model.state_dict().values()
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in values))
note(f"result {Path(str(trainer.state.best_model_checkpoint)).name} {digest.hexdigest()}")
