"""Tensors that are sharded over ranks (DTensor, as in FSDP2): the part of one rank."""

import importlib
import sys
from typing import Any, TypeAlias

from holdfast_train.errors import StateError

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def is_sharded(value: Any) -> bool:
    """True if `value` is a DTensor. False if the program has not loaded DTensor."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def own_part(tensor: Any, name: str) -> tuple[Any, Box | None]:
    """The part of a DTensor that this rank saves, and its place in the whole: its first index and its shape.

    The place is None if every rank has the whole tensor. Of ranks with the same shard only the first saves it.
    StateError if the tensor is a partial sum.
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
    """A DTensor with this rank's part `local`, and the devices and placements of `like`."""
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
    """The first index and the shape of this rank's part of a DTensor."""
    # torch.distributed.checkpoint uses this function; it has no public name.
    utilities = importlib.import_module("torch.distributed.tensor._utils")
    compute = utilities.compute_local_shape_and_global_offset
    shape, start = compute(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(start), tuple(shape)


def storage_of(value: Any) -> int:
    """The address of the memory that the tensor `value` is a view of."""
    local = value.to_local() if hasattr(value, "to_local") else value
    address: int = local.untyped_storage().data_ptr()
    return address
