"""The methods that Run requires of objects in a checkpoint, and what is inside wrappers of other libraries."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from holdfast_train.data.rng import Generators
from holdfast_train.errors import StateError

# Classes whose state is split over the ranks without a description of the parts, by package and name.
_SPLIT: Final = {
    ("torch", "FullyShardedDataParallel"): "FSDP1",
    ("torch", "FlatParameter"): "FSDP1",
    ("torch", "ZeroRedundancyOptimizer"): "ZeroRedundancyOptimizer",
    ("fairscale", "FullyShardedDataParallel"): "FSDP of fairscale",
    ("fairscale", "OSS"): "OSS of fairscale",
    ("deepspeed", "DeepSpeedEngine"): "DeepSpeed",
    ("deepspeed", "ZeROOptimizer"): "ZeRO of DeepSpeed",
    ("deepspeed", "DeepSpeedZeroOptimizer"): "ZeRO of DeepSpeed",
    ("deepspeed", "DeepSpeedZeroOptimizer_Stage3"): "ZeRO of DeepSpeed",
}
# Modules whose objects contain no state that the program has made.
_OF_LIBRARIES: Final = ("torch.", "accelerate.", "lightning.fabric.", "holdfast_train.frameworks.position.")


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
    """`thing`, which the program calls `name`. StateError if it lacks a method, or is split over the ranks."""
    if not isinstance(thing, Stateful):
        raise StateError(f"{name!r} is a {type(thing).__name__}: Run takes objects with state_dict and load_state_dict")
    for part in _parts(thing):
        for kind in type(part).__mro__:
            if (found := _SPLIT.get((kind.__module__.partition(".")[0], kind.__name__))) is not None:
                raise StateError(
                    f"{name!r} uses {found} ({kind.__name__}), whose state Run cannot save yet; use FSDP2 "
                    f"(torch.distributed.fsdp.fully_shard) or DistributedDataParallel"
                )
    return thing


def _parts(thing: Any) -> Iterator[Any]:
    """`thing`, what is inside its wrappers, the modules of a model, and the parameters of an optimizer."""
    yield thing
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.nn.Module):
        yield from thing.modules()
    while hasattr(thing, "param_groups"):
        for group in thing.param_groups:
            yield from group["params"]
        thing = getattr(thing, "optimizer", None)
        yield thing


def stepping_ones(objects: Iterable[Any]) -> list[Any]:
    """The optimizers among `objects` that change the parameters, and that tell it (`register_step_pre_hook`).

    A subclass of torch's Optimizer that does not call Optimizer.__init__ does not tell it.
    """
    found = (stepping(thing) for thing in objects if hasattr(thing, "param_groups"))
    return [one for one in found if isinstance(getattr(one, "_optimizer_step_pre_hooks", None), dict)]


def stepping(optimizer: Any) -> Any:
    """The optimizer that changes the parameters: `optimizer`, or the one in wrappers such as accelerate's. Of a
    schedule of torch it is the optimizer whose numbers it sets."""
    while hasattr(inner := getattr(optimizer, "optimizer", None), "param_groups"):
        optimizer = inner
    return optimizer


def has_position(objects: Iterable[Any]) -> bool:
    """True if one of `objects` has a position in the data: it counts steps, or is a sampler, a loader or a data set of
    torch, or says so by `is_position_in_data`."""
    data: Any = sys.modules.get("torch.utils.data")
    kinds = (Counts,) if data is None else (Counts, data.Sampler, data.DataLoader, data.Dataset)
    return any(isinstance(one, kinds) or getattr(one, "is_position_in_data", False) for one in objects)


def of_program(objects: Iterable[Any]) -> list[Any]:
    """Those of `objects` that are of the program itself, or `Values` of it: such an object may contain anything, as how
    far the training is. Modules, objects of torch, an ElasticSampler and Generators contain nothing of that kind, nor
    do those of accelerate and Fabric with what the adapters add to them.
    """
    torch: Any = sys.modules.get("torch")
    samplers: Any = sys.modules.get("holdfast_train.data.elastic_sampler")  # loaded if there is one: it needs NumPy
    known = (Generators, *([torch.nn.Module] if torch else []), *([samplers.ElasticSampler] if samplers else []))
    others = (stepping(one) for one in objects if not isinstance(one, known))
    return [one for one in others if not f"{type(one).__module__}.".startswith(_OF_LIBRARIES)]


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
