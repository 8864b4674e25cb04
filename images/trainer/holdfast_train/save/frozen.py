"""Frozen parameters: they are uploaded once, and later checkpoints name the same data again.

Frozen are the parameters of the objects that need no gradient and that no optimizer has, such as the base model under
LoRA. Nothing promises that they stay as they are: code may write to them in place, also past the version counters of
torch (`parameter.data += ...`, as when an adapter is merged for an evaluation). So neither `requires_grad` nor a
counter nor an address decides, but the content: at every save this rank computes a checksum of each frozen byte that it
is to save. If one checksum differs from those of the data that it uploaded before, the frozen bytes are copied and
uploaded again.

When the checksums are computed:

- at the first save after an upload, and at every save for which the program waits: while training stands;
- at later saves, if no checksum has differed yet: beside training, before the writer may commit. If one differs, that
  save is given up, and from then on checksums are computed while training stands. So parameters that follow trained
  ones, such as a teacher that averages them, cost a copy at each save and no failed save.

Checksums beside training are those of the moment of the save. A GPU computes them in the order of training's stream. On
a CPU training may write meanwhile, so addresses, version counters and some bytes of each piece are noted at the moment
of the save, and compared once more at the end. What nothing notices is a write past the version counters that changes
none of the noted bytes, is there at the save, and is undone before the checksum has come to it.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from awscrt import checksums

from holdfast_protocol.gates import FROZEN_CHECKSUMS_ON_CUDA
from holdfast_protocol.settings import Settings
from holdfast_train.commitlog.checkpoints import Saved
from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import HostCopy
from holdfast_train.format.sharding import storage_of
from holdfast_train.format.tree import Leaf
from holdfast_train.save.arena import Arena
from holdfast_train.save.messages import Failed
from holdfast_train.save.noted import noted
from holdfast_train.save.plan import Plan
from holdfast_train.say import say

THREADS: Final = 4  # checksums at once while training waits for them: then its cores are free
PIECE: Final = 64 << 20  # bytes of one checksum
_MIX: Final = (-7046029254386353131, -4658895280553007687, -7723592293110685705)  # odd constants of splitmix64
Confirm: TypeAlias = Callable[[Arena], str]
_Piece: TypeAlias = tuple[Any, int, int, int]  # a contiguous tensor, the range of its bytes, and its place in the arena


@dataclass(frozen=True)
class FrozenNames:
    """What all ranks agree on for one save: the name for frozen data that is written `fresh`, and the names of frozen
    data that the newest `committed` checkpoint uses. Only that data may be used again."""

    fresh: CheckpointName
    committed: frozenset[CheckpointName] = frozenset()


class Choice(NamedTuple):
    """What happens to the frozen bytes in one save. `kept`: the name of data that has them; None: they are copied.

    `confirm`: called in a thread with the arena, when the rest is copied. Its answer says why the save has to be given
    up; empty if it may be committed. None: nothing is left to do.
    """

    kept: CheckpointName | None
    confirm: Confirm | None = None


class Frozen:
    """The frozen parameters of `objects`, as one rank knows them.

    `committed`: the names that the newest checkpoint of this attempt uses. Only rank 0 knows them.
    Without their gate in `settings`, frozen bytes on a GPU are copied each time, and rank 0 says so once.
    """

    def __init__(self, objects: Iterable[Any], settings: Settings, rank: int = 0) -> None:
        self._objects = list(objects)
        self._on_gpus = settings.is_on(FROZEN_CHECKSUMS_ON_CUDA)
        self._says = rank == 0
        self.committed: frozenset[CheckpointName] = frozenset()
        self._uploaded: CheckpointName | None = None  # the name of the data that this rank's writer has uploaded
        self._places: tuple[Any, ...] = ()  # of that data,
        self._sums: tuple[Any, ...] | None = None  # and its checksums
        self._is_steady: bool | None = None  # False: a checksum has differed; None: none was compared yet

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

    def choose(self, plan: Plan, leaves: Sequence[Leaf], names: FrozenNames, *, waits: bool) -> Choice:
        """Whether committed data has the frozen bytes as they are now. `waits`: training stands until the commit.

        Training must stand during the call, but not until `confirm` is called.
        """
        if not plan.frozen:
            return Choice(None)
        copies = plan.frozen_copies
        if not self._on_gpus and any(leaves[copy.leaf].value.device.type != "cpu" for copy in copies):
            if self._says:
                say(f"frozen parameters on GPUs are saved in full: the gate {FROZEN_CHECKSUMS_ON_CUDA.name} is off")
            self._says, self._uploaded = False, None
            return Choice(None)
        places = tuple((leaves[copy.leaf].name, copy) for copy in copies)
        prints = Fingerprint([(leaves[copy.leaf].value, copy.start, copy.stop, copy.at) for copy in copies])
        known = self._uploaded
        if known is not None and known in names.committed and places == self._places:
            if self._is_steady and not waits:
                return Choice(known, lambda _: self._confirm(prints))
            sums = prints.result(threads=THREADS)
            if sums == self._sums:
                self._is_steady = self._is_steady is not False
                return Choice(known)
            self._is_steady = False
            self._uploaded, self._sums = names.fresh, sums
            return Choice(None)
        self._uploaded, self._places, self._sums = names.fresh, places, None
        return Choice(None, lambda arena: self._note(prints, arena))

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

    def _confirm(self, prints: "Fingerprint") -> str:
        if prints.result() == self._sums and prints.is_undisturbed():
            return ""
        self._is_steady, self._uploaded = False, None
        return "a frozen parameter has changed since it was uploaded; the next save uploads it again"

    def _note(self, prints: "Fingerprint", arena: Arena) -> str:
        self._sums = prints.result(arena)
        return ""


def _parameters(thing: Any) -> Iterable[Any]:
    torch: Any = sys.modules["torch"]
    return thing.parameters() if isinstance(thing, torch.nn.Module) else ()


def _optimized(thing: Any) -> Iterable[Any]:
    """The parameters that an optimizer has."""
    groups = thing.param_groups if hasattr(thing, "register_step_pre_hook") else ()
    return (parameter for group in groups for parameter in group["params"])


class Fingerprint:
    """Checksums of all bytes of `pieces`: equal bytes have equal ones, and changed bytes have others.

    On the CPU a CRC-64/NVME of every 64 MiB, which `result` computes. On a GPU a sum of 64 bits, which the GPU computes
    from the words and their positions. It begins when this object is made, on the stream of training: work that is put
    on that stream later does not change it.
    """

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._on_cpu: list[_Piece] = []
        on_device: dict[Any, list[Any]] = {}
        for tensor, start, stop, at in pieces:
            for begin in range(start, stop, PIECE):
                end = min(begin + PIECE, stop)
                if tensor.device.type == "cpu":
                    self._on_cpu.append((tensor, begin, end, at + begin - start))
                else:
                    total = _sum_on_device(tensor, begin, end).reshape(1)
                    on_device.setdefault(tensor.device, []).append(total.view(sys.modules["torch"].uint8))
        self._on_device = [HostCopy(sums) for sums in on_device.values()]
        self._noted = self._note()

    def result(self, arena: Arena | None = None, *, threads: int = 1) -> tuple[Any, ...]:
        """The checksums. Those on the CPU are of the bytes as they are now; with `arena`, of the copies in it."""

        def crc(piece: _Piece) -> int:
            tensor, start, stop, at = piece
            address = tensor.data_ptr() + start if arena is None else arena.address + at
            return _crc(address, stop - start)

        with ThreadPoolExecutor(threads, "holdfast-frozen") as pool:
            return (*pool.map(crc, self._on_cpu), *(sums.wait() for sums in self._on_device))

    def is_undisturbed(self) -> bool:
        """True if nothing shows that the bytes on the CPU were written since this object was made."""
        return self._noted == self._note()

    def _note(self) -> list[tuple[int, int, int]]:
        """Of each piece on the CPU its address, the version counter, and a checksum of its noted windows."""
        found = []
        for tensor, start, stop, _ in self._on_cpu:
            address = tensor.data_ptr() + start
            found.append((address, tensor._version, noted(address, stop - start)))
        return found


def _crc(address: int, size: int) -> int:
    return int(checksums.crc64nvme((ctypes.c_char * size).from_address(address)))


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
