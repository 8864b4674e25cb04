"""XGBoost with its own TrainingCheckPoint: xgboost_loop.py FOLDER."""

import sys
from pathlib import Path

import numpy as np
import xgboost
from pause import pause
from xgboost.callback import TrainingCallback, TrainingCheckPoint

ROUNDS = 240
folder = Path(sys.argv[1])
random = np.random.default_rng(1)
x = random.normal(size=(40_000, 30)).astype("float32")
y = (x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * random.normal(size=40_000) > 0).astype("float32")
data = xgboost.DMatrix(x, y)


class Say(TrainingCallback):
    """Print the round of the whole model: XGBoost itself counts from 0 again when it goes on."""

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: dict) -> bool:
        pause()
        print(f"round {model.num_boosted_rounds()} loss={evals_log['train']['logloss'][-1]:.6f}", flush=True)
        return False


# A name such as model_40.ubj: the number of rounds that the whole model has.
saves = sorted(folder.glob("model_*.ubj"), key=lambda path: int(path.stem.split("_")[1]))
model, done = None, 0
for save in reversed(saves):
    try:
        model = xgboost.Booster(model_file=save)
    except xgboost.core.XGBoostError as error:  # TrainingCheckPoint was killed while it wrote
        print(f"{save} is not whole: {error}", flush=True)
        continue
    done = model.num_boosted_rounds()
    print(f"resumed at round {done}", flush=True)
    break
model = xgboost.train(
    {"max_depth": 7, "eta": 0.1, "objective": "binary:logistic", "nthread": 1, "seed": 1, "tree_method": "hist"},
    data,
    num_boost_round=ROUNDS - done,
    xgb_model=model,
    evals=[(data, "train")],
    verbose_eval=False,
    callbacks=[Say(), TrainingCheckPoint(folder, name="model", interval=30)],
)
model.save_model(folder / "final.ubj")
