"""The SentenceTransformerTrainer with a model made on the spot: sentence_transformers_fit.py MODEL FOLDER."""

import os
import sys

from datasets import Dataset
from pause import pause
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from transformers.trainer_utils import get_last_checkpoint

model, folder = sys.argv[1:3]
words = [f"{a}{b}" for a in ("ba", "ki", "lo", "mu") for b in ("d", "f", "k", "l")]
rows = [" ".join(words[(number * 5 + at * (1 + number % 7)) % 16] for at in range(60)) for number in range(2000)]
data = Dataset.from_dict({"anchor": rows[:-1], "positive": rows[1:]})
encoder = SentenceTransformer(model, device="cpu")
encoder.register_forward_pre_hook(pause)
arguments = SentenceTransformerTrainingArguments(
    output_dir=folder, max_steps=64, save_steps=8, save_total_limit=3, logging_steps=1, use_cpu=True, seed=1,
    per_device_train_batch_size=16, report_to=[],
)  # fmt: skip
trainer = SentenceTransformerTrainer(encoder, arguments, train_dataset=data, loss=MultipleNegativesRankingLoss(encoder))
last = os.environ.get("HOLDFAST_NEWEST_CHECKPOINT") or get_last_checkpoint(folder)
if last:
    print("resumes from", last, flush=True)
trainer.train(resume_from_checkpoint=last)
encoder.save_pretrained(f"{folder}/final")
