"""What runs inside a Holdfast training pod: launcher, checkpoints, progress, reference trainers."""

import os

from holdfast_train import rng, values
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.loading import load, load_weights
from holdfast_train.session import Run
from holdfast_train.state import Stateful
from holdfast_train.workers import keep_workers, obey_parent_only

__all__ = ["HoldfastTrainError", "Run", "Stateful", "load", "load_weights", "obey_parent_only", "rng", "values"]

if os.environ.get("HOLDFAST_JOB"):
    keep_workers()  # here, not in Run: a program may make its data loader before its Run
