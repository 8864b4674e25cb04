"""Attempts of a job and what they save, on a store in memory."""

from typing import Any

import numpy as np
from tests.support.trainer import stores
from tests.support.trainer.stores import MemoryStorage

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Identity
from holdfast_train.storage.base import Storage


def attempt(storage: Storage, who: Identity, keep: Keep | None = None, resume: str = "Auto") -> Checkpoints:
    """An attempt that has started."""
    found = Checkpoints(storage, who, keep or Keep(last=3))
    found.start(resume)
    return found


def state(step: int) -> dict[str, Any]:
    """What a training has after `step` steps."""
    return {"objects": {"x": np.full(1000, step)}}


def save(checkpoints: Checkpoints, *steps: int) -> None:
    """A checkpoint of each of these steps."""
    for step in steps:
        stores.save(checkpoints, step, state(step), [{"rng": step}])


def data_key(storage: MemoryStorage, step: int) -> str:
    """Where the data of the first checkpoint of this step lie."""
    return storage.keys(f"data/{step:012d}")[0]
