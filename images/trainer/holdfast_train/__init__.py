"""What runs inside a Holdfast training pod. A program with a loop of its own needs the names of this module alone.

A program that trains with a library of other people needs the names of that library's module in frameworks. Rooms
import only what stands below them (README.md lists them). What every room needs is at the root: errors, environment,
ranks, progress, say.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast_protocol import variables
from holdfast_train.pod.loader_workers import keep_workers, obey_parent_only

if TYPE_CHECKING:
    from holdfast_train.data.elastic_sampler import ElasticSampler
    from holdfast_train.data.rng import Generators
    from holdfast_train.data.values import Values
    from holdfast_train.errors import HoldfastTrainError
    from holdfast_train.format.stateful import Stateful
    from holdfast_train.restore.load import load, load_weights
    from holdfast_train.run.in_place import restart_in_place
    from holdfast_train.run.run import Run
    from holdfast_train.run.trackers import wandb_settings

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


# Where each name is. A name is imported when it is first used: writers, stagers and init containers need none of them,
# and start in half the time. ElasticSampler also needs numpy, which the CLI does not have.
_PLACES = {
    "ElasticSampler": "data.elastic_sampler",
    "Generators": "data.rng",
    "HoldfastTrainError": "errors",
    "Run": "run.run",
    "Stateful": "format.stateful",
    "Values": "data.values",
    "load": "restore.load",
    "load_weights": "restore.load",
    "restart_in_place": "run.in_place",
    "wandb_settings": "run.trackers",
}


def __getattr__(name: str) -> Any:
    """Import a name of this module when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found


def __dir__() -> list[str]:
    """The names of this module, also those that nothing has used yet."""
    return sorted({*globals(), *__all__})
