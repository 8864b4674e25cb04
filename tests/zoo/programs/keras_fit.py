"""`model.fit` of Keras with its own BackupAndRestore: keras_fit.py FOLDER [STEPS BETWEEN SAVES]."""

import sys
from pathlib import Path

import keras
import numpy as np
from pause import pause

folder = Path(sys.argv[1])
every = int(sys.argv[2]) if len(sys.argv) > 2 else "epoch"
keras.utils.set_random_seed(1)
random = np.random.default_rng(1)
x = random.normal(size=(1920, 24, 24, 1)).astype("float32")
y = (x.mean(axis=(1, 2, 3)) * 40).astype(int) % 10
model = keras.Sequential(
    [
        keras.layers.Input((24, 24, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
backup = keras.callbacks.BackupAndRestore(folder / "backup", save_freq=every, delete_checkpoint=False)


class Say(keras.callbacks.Callback):
    """Print the steps; the first one of a start tells where it began."""

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        print(f"epoch begins: {epoch}", flush=True)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        print(f"step {int(self.model.optimizer.iterations)}/240 loss={(logs or {})['loss']:.6f}", flush=True)
        pause()


model.fit(x, y, batch_size=64, epochs=8, shuffle=False, verbose=0, callbacks=[backup, Say()])
model.save(folder / "final.keras")
model.save_weights(folder / "final.weights.h5")
