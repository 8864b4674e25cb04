"""Tensors that are sharded over ranks (DTensor, as FSDP2 has them): what a rank has of one."""

import importlib
import sys
from typing import Any, TypeAlias

from holdfast_train.errors import StateError

__all__ = ["Box", "as_sharded", "is_sharded", "own_part", "place"]

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
    start, shape = place(tensor)
    coordinate = tensor.device_mesh.get_coordinate()
    copies = (at for at, placement in zip(coordinate, tensor.placements, strict=True) if placement.is_replicate())
    if any(copies):
        return local.reshape(-1)[:0], (start, (0,) * len(shape))
    return local, (start, shape)


def as_sharded(local: Any, like: Any) -> Any:
    """The DTensor of which this rank has `local`, on the devices and with the placements of `like`."""
    module: Any = sys.modules["torch.distributed.tensor"]
    return module.DTensor.from_local(
        local.to(like.device),
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )


def place(tensor: Any) -> Box:
    """What this rank has of a DTensor: its first index and its shape."""
    # As torch.distributed.checkpoint does; there is no public name for it.
    utilities = importlib.import_module("torch.distributed.tensor._utils")
    compute = utilities.compute_local_shape_and_global_offset
    shape, start = compute(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(start), tuple(shape)
