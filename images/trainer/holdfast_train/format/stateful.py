"""The objects that a checkpoint can hold: what Run requires of them."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from holdfast_train.errors import StateError

__all__ = ["Counts", "Stateful", "checked", "unwrapped"]


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint can hold: models, optimizers, schedules, and anything else with these two methods."""

    def state_dict(self) -> Mapping[str, Any]:
        """The state: numbers, strings, bytes, lists, tuples, dicts, NumPy arrays and tensors."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take over what `state_dict` gave."""


@runtime_checkable
class Counts(Protocol):
    """What wants to know how many steps were trained, such as a sampler, whose position that is."""

    def trained(self, step: int) -> None:
        """`step` steps are done."""


def checked(name: str, thing: object) -> Stateful:
    """`thing`, which the program calls `name`. StateError if a checkpoint cannot hold it."""
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
