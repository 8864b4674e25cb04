"""The methods that Run requires of objects in a checkpoint."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from holdfast_train.errors import StateError

__all__ = ["Counts", "Stateful", "checked", "unwrapped"]


@runtime_checkable
class Stateful(Protocol):
    """An object in a checkpoint: a model, an optimizer, a schedule, or any other with these two methods."""

    def state_dict(self) -> Mapping[str, Any]:
        """The state: numbers, strings, bytes, lists, tuples, dicts, NumPy arrays and tensors."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Load a state that `state_dict` returned."""


@runtime_checkable
class Counts(Protocol):
    """An object that needs the number of trained steps, such as a sampler, whose position it is."""

    def trained(self, step: int) -> None:
        """Called after `step` steps in all."""


def checked(name: str, thing: object) -> Stateful:
    """`thing`, which the program calls `name`. StateError if it lacks a method."""
    if not isinstance(thing, Stateful):
        raise StateError(f"{name!r} is a {type(thing).__name__}: Run takes objects with state_dict and load_state_dict")
    return thing


def unwrapped(thing: Any) -> Any:
    """The model inside DistributedDataParallel and torch.compile, so that a checkpoint fits with and without them."""
    while True:
        kind = type(thing).__name__
        if kind in ("DistributedDataParallel", "DataParallel"):
            thing = thing.module
        elif kind == "OptimizedModule":
            thing = thing._orig_mod
        else:
            return thing
