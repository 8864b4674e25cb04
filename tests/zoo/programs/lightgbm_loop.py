"""LightGBM, which goes on with `init_model`: lightgbm_loop.py FOLDER."""

import sys
from pathlib import Path

import lightgbm
import numpy as np

ROUNDS = 240
folder = Path(sys.argv[1])
random = np.random.default_rng(1)
x = random.normal(size=(40_000, 30))
y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * random.normal(size=40_000) > 0).astype("float32")
saves = sorted(folder.glob("model-*.txt"), key=lambda path: int(path.stem[6:]))
done = int(saves[-1].stem[6:]) if saves else 0
if saves:
    print(f"resumed at round {done}", flush=True)


def save(now: lightgbm.callback.CallbackEnv) -> None:
    """Save every 30 rounds, under another name until the file is whole."""
    print(f"round {now.iteration + 1} loss={now.evaluation_result_list[0][2]:.6f}", flush=True)
    if (now.iteration + 1) % 30 == 0:
        part = folder / f"tmp-{now.iteration + 1}"
        now.model.save_model(part)
        part.rename(folder / f"model-{now.iteration + 1}.txt")


data = lightgbm.Dataset(x, y, free_raw_data=False)
parameters = {"objective": "binary", "num_leaves": 63, "num_threads": 1, "seed": 1, "deterministic": True}
options = {"valid_sets": [data], "valid_names": ["train"], "callbacks": [save]}
model = lightgbm.train(
    {**parameters, "verbosity": -1, "force_row_wise": True},
    data,
    num_boost_round=ROUNDS - done,
    init_model=str(saves[-1]) if saves else None,
    **options,
)
np.savez(folder / "final.npz", model.predict(x, raw_score=True))
