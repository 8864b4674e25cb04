"""LightGBM in pieces, each of which goes on with `init_model`: lightgbm_loop.py FOLDER."""

import sys
from pathlib import Path

import lightgbm
import numpy as np
from pause import pause

ROUNDS, EVERY = 240, 30
folder = Path(sys.argv[1])
random = np.random.default_rng(1)
x = random.normal(size=(40_000, 30))
y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * random.normal(size=40_000) > 0).astype("float32")
saves = sorted(folder.glob("model-*.txt"), key=lambda path: int(path.stem[6:]))
done = int(saves[-1].stem[6:]) if saves else 0
if saves:
    print(f"resumed at round {done}", flush=True)


def say(now: lightgbm.callback.CallbackEnv) -> None:
    """Print the round."""
    pause()
    print(f"round {now.iteration + 1} loss={now.evaluation_result_list[0][2]:.6f}", flush=True)


data = lightgbm.Dataset(x, y, free_raw_data=False)
parameters = {"objective": "binary", "num_leaves": 63, "num_threads": 1, "seed": 1, "deterministic": True}
options = {"valid_sets": [data], "valid_names": ["train"], "callbacks": [say]}
while done < ROUNDS:
    model = lightgbm.train(
        {**parameters, "verbosity": -1, "force_row_wise": True},
        data,
        num_boost_round=EVERY,
        init_model=str(folder / f"model-{done}.txt") if done else None,
        **options,
    )
    done += EVERY
    model.save_model(folder / f"tmp-{done}")  # under another name until the file is whole
    (folder / f"tmp-{done}").rename(folder / f"model-{done}.txt")
np.savez(folder / "final.npz", model.predict(x, raw_score=True))
