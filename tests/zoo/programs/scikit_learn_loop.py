"""scikit-learn in pieces with `partial_fit`, and joblib for its saves: scikit_learn_loop.py FOLDER."""

import sys
from pathlib import Path

import joblib
import numpy as np
from pause import pause
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

STEPS = 240
folder = Path(sys.argv[1])
save = folder / "model.joblib"
random = np.random.default_rng(1)
x = random.normal(size=(12_000, 50))
y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2]) > 0).astype(int)
state = {"model": MLPClassifier((128, 64), random_state=1), "step": 0}
if save.exists():
    state = joblib.load(save)
    print(f"resumed at step {state['step']}", flush=True)
while state["step"] < STEPS:
    pause()
    at = state["step"] % 6 * 2000
    state["model"].partial_fit(x[at : at + 2000], y[at : at + 2000], classes=[0, 1])
    state["step"] += 1
    loss = log_loss(y[:1000], state["model"].predict_proba(x[:1000]))
    print(f"step {state['step']}/{STEPS} loss={loss:.6f}", flush=True)
    if state["step"] % 30 == 0:
        joblib.dump(state, folder / "model.joblib.tmp")
        (folder / "model.joblib.tmp").rename(save)
np.savez(folder / "final.npz", *state["model"].coefs_, *state["model"].intercepts_)
