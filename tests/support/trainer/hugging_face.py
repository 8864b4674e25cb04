"""A training with Hugging Face's Trainer, as people write it: it knows nothing of Holdfast.

Usage: hugging_face.py FOLDER STEPS SECONDS_A_STEP [nan]. It resumes from the newest checkpoint in FOLDER.
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.seconds = seconds

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        time.sleep(self.seconds)  # the work of a real model
        found = self.linear(inputs)
        return {"loss": (found - labels).square().mean(), "logits": found}


def main(folder: str, steps: str, seconds: str, mode: str = "") -> None:
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    labels = inputs.sum(1, keepdim=True) * (float("nan") if mode == "nan" else 1.0)
    data: list[dict[str, Any]] = [{"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=int(steps),
        per_device_train_batch_size=4,
        logging_steps=1,
        save_steps=10,
        save_total_limit=2,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=Model(float(seconds)), args=arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")))
    print(f"done at step {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
