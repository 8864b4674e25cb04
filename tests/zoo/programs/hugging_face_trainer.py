"""The Trainer of transformers, as its documentation starts it: hugging_face_trainer.py FOLDER [--jit]."""

import os
import sys

import torch
from pause import pause
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Words(Dataset):
    """Sequences of which each number follows from the one before."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = (index * 7 + torch.arange(96) * (1 + index % 5)) % 256
        return {"input_ids": row, "labels": row}


folder = sys.argv[1]
arguments = TrainingArguments(
    output_dir=folder,
    max_steps=64,
    save_steps=8,
    save_total_limit=3,
    logging_steps=1,
    per_device_train_batch_size=8,
    use_cpu=True,
    seed=1,
    report_to=[],
    enable_jit_checkpoint="--jit" in sys.argv,
)
torch.manual_seed(1)
config = LlamaConfig(
    vocab_size=256, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
    attention_dropout=0.1,
)  # fmt: skip
model = LlamaForCausalLM(config)
model.register_forward_pre_hook(pause)
trainer = Trainer(model=model, args=arguments, train_dataset=Words())
last = os.environ.get("HOLDFAST_NEWEST_CHECKPOINT") or get_last_checkpoint(folder)
if last:
    print("resumes from", last, flush=True)
trainer.train(resume_from_checkpoint=last)
trainer.save_model(f"{folder}/final")
