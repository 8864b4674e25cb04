"""Frozen parameters: they are uploaded once, and later checkpoints name the same data again.

Frozen are the parameters of the objects that need no gradient and that no optimizer has, such as the base model under
LoRA. Nothing promises that they stay as they are: code may write to them in place, also past the version counters of
torch (`parameter.data += ...`, as when an adapter is merged for an evaluation). So neither `requires_grad` nor a
counter nor an address decides, but the content: at every save, while training waits, this rank computes a checksum of
each frozen byte that it is to save. That takes a fraction of the time of a copy, and no memory. If one checksum differs
from those of the data that it uploaded before, it copies and uploads all its frozen bytes anew.
"""

import ctypes
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from awscrt import checksums

from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.sharding import storage_of
from holdfast_train.format.tree import Leaf
from holdfast_train.save.messages import Failed
from holdfast_train.save.plan import Plan

__all__ = ["Frozen", "FrozenNames", "fingerprint"]

THREADS: Final = 4  # checksums at once: training waits for them, so its cores are free
PIECE: Final = 64 << 20  # bytes of one checksum
_MIX: Final = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # odd constants of splitmix64
_Bytes: TypeAlias = tuple[Any, int, int]  # a contiguous tensor, and the range of its bytes


@dataclass(frozen=True)
class FrozenNames:
    """What all ranks agree on for one save: the name for frozen data that is written `fresh`, and the names of frozen
    data that the newest `committed` checkpoint uses. Only that data may be used again."""

    fresh: CheckpointName
    committed: frozenset[CheckpointName] = frozenset()


class Frozen:
    """The frozen parameters of `objects`, as one rank knows them.

    `committed`: the names that the newest checkpoint of this attempt uses. Only rank 0 knows them.
    """

    def __init__(self, objects: Iterable[Any]) -> None:
        self._objects = list(objects)
        self.committed: frozenset[CheckpointName] = frozenset()
        self._uploaded: CheckpointName | None = None  # the name of the data that this rank's writer has uploaded
        self._prints: tuple[Any, ...] = ()  # of that data

    def leaves(self, leaves: Sequence[Leaf]) -> frozenset[int]:
        """The numbers of the frozen ones of `leaves`. Every rank finds the same."""
        if "torch" not in sys.modules:
            return frozenset()
        still = [p for thing in self._objects for p in _parameters(thing) if not p.requires_grad]
        if not still:
            return frozenset()
        trained = {storage_of(p) for thing in self._objects for p in _optimized(thing)}
        found = {storage_of(p) for p in still} - trained
        return frozenset(
            number
            for number, leaf in enumerate(leaves)
            if leaf.kind == "torch" and leaf.value.is_contiguous() and storage_of(leaf.value) in found
        )

    def choose(self, plan: Plan, leaves: Sequence[Leaf], names: FrozenNames) -> CheckpointName | None:
        """The name of committed data with the same frozen bytes, None if they have to be copied and uploaded.

        Training must wait meanwhile.
        """
        if not plan.frozen:
            return None
        copies = plan.frozen_copies
        named = tuple((leaves[copy.leaf].name, copy) for copy in copies)
        prints = named, fingerprint([(leaves[copy.leaf].value, copy.start, copy.stop) for copy in copies])
        known = self._uploaded
        if known is not None and known in names.committed and prints == self._prints:
            return known
        self._uploaded, self._prints = names.fresh, prints
        return None

    @property
    def is_stored(self) -> bool:
        """True on rank 0 if the next save need not upload frozen data, unless code has changed it."""
        return self._uploaded in self.committed

    def record(self, result: Saved | Failed) -> None:
        """Note the result of a save, on rank 0. Data that was found missing is not used again."""
        if isinstance(result, Saved):
            self.committed = result.uses
        elif result.error == CheckpointCorruptError.__name__:
            self.committed = frozenset()

    def forget(self) -> None:
        """The writer that knows the uploaded data has ended."""
        self._uploaded = None


def _parameters(thing: Any) -> Iterable[Any]:
    torch: Any = sys.modules["torch"]
    return thing.parameters() if isinstance(thing, torch.nn.Module) else ()


def _optimized(thing: Any) -> Iterable[Any]:
    """The parameters that an optimizer has."""
    groups = thing.param_groups if hasattr(thing, "register_step_pre_hook") else ()
    return (parameter for group in groups for parameter in group["params"])


def fingerprint(ranges: Sequence[_Bytes]) -> tuple[Any, ...]:
    """Checksums of all bytes of these ranges: equal bytes have equal ones, and changed bytes have others.

    On the CPU a CRC-64/NVME of every 64 MiB. On a GPU a sum of 64 bits, which the GPU computes from the words and their
    positions; one wait for all of them.
    """
    pieces = [(tensor, at, min(at + PIECE, stop)) for tensor, start, stop in ranges for at in range(start, stop, PIECE)]
    on_device = [_sum_on_device(*piece) for piece in pieces if piece[0].device.type != "cpu"]
    on_cpu = [piece for piece in pieces if piece[0].device.type == "cpu"]
    with ThreadPoolExecutor(THREADS, "holdfast-frozen") as pool:
        found: list[int] = list(pool.map(lambda piece: _crc(*piece), on_cpu))
    return (*found, *(int(total) for total in on_device))


def _crc(tensor: Any, start: int, stop: int) -> int:
    memory = (ctypes.c_char * (stop - start)).from_address(tensor.data_ptr() + start)
    return int(checksums.crc64nvme(memory))


def _sum_on_device(tensor: Any, start: int, stop: int) -> Any:
    """A tensor of one number: the sum of the mixed words from `start` to `stop`, modulo 2**64.

    A word is mixed with its position before it is added, as in splitmix64. A plain weighted sum is too weak: the signs
    of two numbers could change without a change of the sum.
    """
    torch: Any = sys.modules["torch"]
    data = tensor.reshape(-1).view(torch.uint8)[start:stop]
    kinds = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
    kind = next(k for size, k in kinds if len(data) % size == 0 and data.storage_offset() % size == 0)
    words = data.view(kind)
    mixed = torch.arange(1, len(words) + 1, dtype=torch.int64, device=tensor.device).mul_(_MIX[0]).add_(words)
    for shift, factor in ((30, _MIX[1]), (27, _MIX[2])):
        mixed.bitwise_xor_(mixed >> shift).mul_(factor)
    return mixed.bitwise_xor_(mixed >> 31).sum()
