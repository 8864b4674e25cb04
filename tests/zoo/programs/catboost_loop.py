"""CatBoost with its own snapshots: catboost_loop.py FOLDER."""

import sys

import numpy as np
from catboost import CatBoostClassifier
from pause import pause


class Pause:
    """Pause in each step."""

    def after_iteration(self, info: object) -> bool:
        pause()
        return True


random = np.random.default_rng(1)
x = random.normal(size=(20_000, 30))
y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * random.normal(size=20_000) > 0
model = CatBoostClassifier(
    iterations=400,
    depth=8,
    random_seed=1,
    thread_count=1,
    train_dir=sys.argv[1],
    save_snapshot=True,
    snapshot_file="snapshot",
    snapshot_interval=6,
    metric_period=1,
)
model.fit(x, y, callbacks=[Pause()])
np.savez(f"{sys.argv[1]}/final.npz", model.predict(x, prediction_type="RawFormulaVal"))
