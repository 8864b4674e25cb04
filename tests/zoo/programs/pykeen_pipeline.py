"""The training loop of PyKEEN with its own checkpoints, and the data that it brings: pykeen_pipeline.py FOLDER."""

import logging
import sys
from pathlib import Path

import torch
from pause import pause
from pykeen.pipeline import pipeline
from pykeen.training.callbacks import TrainingCallback


class Pause(TrainingCallback):
    """Pause in each step."""

    def on_batch(self, epoch: int, batch: object, batch_loss: float, **kwargs: object) -> None:
        pause()


logging.basicConfig(level=logging.INFO)
folder = Path(sys.argv[1])
result = pipeline(
    dataset="nations",
    model="RotatE",
    model_kwargs={"embedding_dim": 512},
    epochs=10,
    device="cpu",
    random_seed=1,
    training_kwargs={
        "batch_size": 64,
        "num_workers": 0,
        "callbacks": Pause(),
        "use_tqdm_batch": False,
        "checkpoint_name": "training.pt",
        "checkpoint_directory": str(folder),
        "checkpoint_frequency": 0,  # minutes: a save after each epoch
    },
)
torch.save(result.model.state_dict(), folder / "final.pt")
