"""What runs inside a Holdfast training pod. A program with a loop of its own needs the names of this module alone.

Rooms, from the top: exchange, examples and frameworks; run; pod; save and restore; commitlog; format; storage; data.
Each imports only what stands below it. What every room needs is at the root: errors, environment, ranks, progress, say.
A program that trains with a library of other people needs the names of that library's module in frameworks.
"""

import os
from typing import TYPE_CHECKING, Any

from holdfast_protocol import variables
from holdfast_train.data.rng import Generators
from holdfast_train.data.values import Values
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.stateful import Stateful
from holdfast_train.pod.loader_workers import keep_workers, obey_parent_only
from holdfast_train.restore.load import load, load_weights
from holdfast_train.run.in_place import restart_in_place
from holdfast_train.run.run import Run
from holdfast_train.run.trackers import wandb_settings

if TYPE_CHECKING:
    from holdfast_train.data.elastic_sampler import ElasticSampler

__all__ = [
    "ElasticSampler",
    "Generators",
    "HoldfastTrainError",
    "Run",
    "Stateful",
    "Values",
    "load",
    "load_weights",
    "obey_parent_only",
    "restart_in_place",
    "wandb_settings",
]

if os.environ.get(variables.JOB):
    keep_workers()  # here, not in Run: a program may make its data loader before its Run


def __getattr__(name: str) -> Any:
    """Import ElasticSampler when it is first used: it needs numpy, which neither the launcher nor the CLI has."""
    if name == "ElasticSampler":
        from holdfast_train.data.elastic_sampler import ElasticSampler  # noqa: PLC0415

        return ElasticSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
