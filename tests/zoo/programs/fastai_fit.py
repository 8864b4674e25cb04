"""fastai with its own SaveModelCallback: fastai_fit.py FOLDER."""

import os
import sys
from pathlib import Path

import torch
from fastai.callback.tracker import SaveModelCallback
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from pause import pause
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 8
folder = Path(sys.argv[1])
torch.manual_seed(1)
x = torch.randn(4000, 100)
y = (x[:, :1] * x[:, 1:2]).sin()
loader = DataLoader(TensorDataset(x, y), batch_size=64)
model = torch.nn.Sequential(torch.nn.Linear(100, 640), torch.nn.ReLU(), torch.nn.Linear(640, 640), torch.nn.ReLU(),
                            torch.nn.Linear(640, 1))  # fmt: skip
model.register_forward_pre_hook(pause)
learner = Learner(DataLoaders(loader, loader), model, loss_func=torch.nn.MSELoss(), path=folder, model_dir=".")
# The newest save that is whole: a crash can cut the one with the newest name.
newest = os.environ.get("HOLDFAST_NEWEST_CHECKPOINT")
start = int(Path(newest).stem.split("_")[1]) + 1 if newest else 0
if newest:
    learner.load(Path(newest).stem, with_opt=True)
    print(f"resumed at epoch {start}", flush=True)
with learner.no_bar():
    # `start_epoch` leaves out the epochs that are done.
    saver = SaveModelCallback(every_epoch=True, with_opt=True, fname="model")
    learner.fit(EPOCHS, lr=1e-3, cbs=saver, start_epoch=start)
torch.save(model.state_dict(), folder / "final.pt")
