"""skorch with its own callbacks Checkpoint and LoadInitState: skorch_fit.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import torch
from pause import pause
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint, LoadInitState

EPOCHS = 8
folder = Path(sys.argv[1])
torch.manual_seed(1)
random = np.random.default_rng(1)
x = random.normal(size=(12_000, 100)).astype("float32")
y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2]) > 0).astype("int64")
module = torch.nn.Sequential(torch.nn.Linear(100, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                             torch.nn.Linear(512, 2))  # fmt: skip
module.register_forward_pre_hook(pause)
checkpoint = Checkpoint(dirname=folder, monitor=None)
net = NeuralNetClassifier(
    module, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=1e-4, batch_size=64, train_split=None,
    max_epochs=EPOCHS, callbacks=[checkpoint, LoadInitState(checkpoint)], iterator_train__shuffle=False,
)  # fmt: skip
net.initialize()
if (folder / "history.json").exists():
    net.load_params(checkpoint=checkpoint)
    print(f"resumed at epoch {len(net.history)}", flush=True)
    net.set_params(max_epochs=EPOCHS - len(net.history))
net.fit(x, y)
net.save_params(f_params=folder / "final.pt")
