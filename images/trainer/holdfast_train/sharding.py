"""Tensors that are sharded over ranks (DTensor, as FSDP2 has them): what a rank has of one, and how to cut one."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

from holdfast_train.errors import StateError

__all__ = ["Box", "fitted", "is_sharded", "own_part"]

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def is_sharded(value: Any) -> bool:
    """Is it a DTensor? False where nobody has loaded them."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def own_part(tensor: Any, name: str) -> tuple[Any, Box | None]:
    """What this rank saves of a DTensor, and where that is in the whole: its first index and its shape.

    None for the place if all ranks have all of it. Of ranks that have the same shard the first saves it, and the others
    save none of it. StateError if it waits for a sum over ranks.
    """
    if any(placement.is_partial() for placement in tensor.placements):
        raise StateError(f"{name} is a partial sum (DTensor with Partial placements); redistribute it in state_dict()")
    local = tensor.to_local()
    if all(placement.is_replicate() for placement in tensor.placements):
        return local, None
    start, shape = _place(tensor)
    coordinate = tensor.device_mesh.get_coordinate()
    copies = (at for at, placement in zip(coordinate, tensor.placements, strict=True) if placement.is_replicate())
    if any(copies):
        return local.reshape(-1)[:0], (start, (0,) * len(shape))
    return local, (start, shape)


def fitted(saved: Any, thing: Any) -> Any:
    """`saved`, the state of `thing`, with whole tensors cut as `thing` has them sharded. Others stay as they are."""
    if hasattr(thing, "param_groups") and isinstance(saved, Mapping) and "state" in saved:
        parameters = [parameter for group in thing.param_groups for parameter in group["params"]]
        if not any(map(is_sharded, parameters)):
            return saved
        state = {
            number: {key: _cut(value, parameters[number]) for key, value in values.items()}
            for number, values in saved["state"].items()
        }
        return {**saved, "state": state}
    if hasattr(thing, "parameters") and any(map(is_sharded, thing.parameters())):
        now = thing.state_dict()
        return {key: _cut(value, now.get(key)) for key, value in saved.items()}
    return saved


def _cut(value: Any, like: Any) -> Any:
    """This rank's part of `value`, if `like` is a DTensor of the same shape."""
    if not is_sharded(like) or tuple(getattr(value, "shape", ())) != tuple(like.shape):
        return value
    module: Any = sys.modules["torch.distributed.tensor"]
    start, shape = _place(like)
    box = tuple(slice(at, at + length) for at, length in zip(start, shape, strict=True))
    local = value[box].to(like.device).contiguous()
    return module.DTensor.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def _place(tensor: Any) -> Box:
    # As torch.distributed.checkpoint does; there is no public name for it.
    utilities = importlib.import_module("torch.distributed.tensor._utils")
    compute = utilities.compute_local_shape_and_global_offset
    shape, start = compute(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(start), tuple(shape)
