"""Shared memory: a rank copies its state into it, and the rank's writer process uploads from it. And whose it is."""

import ctypes
import errno
import mmap
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from holdfast_train.environment import Environment
from holdfast_train.errors import StateError
from holdfast_train.format.names import CheckpointName
from holdfast_train.keeper_memory import KeeperMemory, file_numbers
from holdfast_train.memory import fits
from holdfast_train.memory_file import memory_file

ARENAS: Final = 2
LoanState: TypeAlias = Literal["uploading", "kept", "retrying"]

ALIGNMENT: Final = 64  # bytes: tensors in the arena start at multiples of it, as vector instructions prefer
_MADV_POPULATE_WRITE: Final = 23  # <linux/mman.h>, since Linux 5.14; Python's mmap does not name it
_POPULATE_BYTES: Final = 4 << 20  # for one call, during which no other thread can map memory
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Arena:
    """`size` bytes of anonymous shared memory (memfd), freed when the last process that maps them closes them."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """New memory, or the memory of `descriptor`, which this object then owns. StateError if memory is short."""
        self.size = size
        length = max(size, mmap.PAGESIZE)
        try:
            self.descriptor, self._map = _mapped(descriptor, length)
        except OSError as error:
            hint = "; give the trainer more (spec.trainer.resources.memory)" if error.errno == errno.ENOMEM else ""
            raise StateError(
                f"no shared memory for {size / 2**30:.2f} GiB of state ({error.strerror}){hint}"
            ) from error
        self.view: Final = memoryview(self._map)
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._registered = False

    def populate(self) -> None:
        """Make the kernel allocate the pages now, so that the first save is as fast as later ones. May run in a thread.

        A kernel that cannot do this (Linux before 5.14) allocates them during the first save.
        """
        for start in range(0, len(self._map), _POPULATE_BYTES):
            length = min(_POPULATE_BYTES, len(self._map) - start)
            address = ctypes.c_void_p(self.address + start)
            if _LIBC.madvise(address, ctypes.c_size_t(length), _MADV_POPULATE_WRITE) != 0:
                return

    def pin(self) -> None:
        """Register the memory with CUDA, if this process uses CUDA, so that a GPU can copy into it directly."""
        torch: Any = sys.modules.get("torch")
        if self._registered or torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
            return
        torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(self.address, len(self._map), 0))
        self._registered = True

    def tensor(self, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A torch tensor over this memory. `offset` must be aligned for `dtype`."""
        torch: Any = sys.modules["torch"]
        count = 1
        for length in shape:
            count *= length
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset).view(shape)

    def copy_from(self, offset: int, address: int, size: int) -> None:
        """Copy `size` bytes from `address`, in this thread and without the interpreter's lock (GIL)."""
        ctypes.memmove(self.address + offset, address, size)

    def close_descriptor(self) -> None:
        """Close the descriptor. The memory stays as long as this object, or another process, maps it."""
        os.close(self.descriptor)

    def close(self) -> None:
        """Undo `pin` and close the descriptor. Nothing may copy into the arena after this call."""
        if self._registered:
            torch: Any = sys.modules["torch"]
            torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(self.address))
            self._registered = False
        self.close_descriptor()


@dataclass
class Loan:
    """An arena's save: `name` of `step`, which `writer` uploads. `fresh`: see FrozenNames.

    `state`: "kept" between two tries of an upload whose storage is unreachable, "retrying" during a further try.
    """

    name: CheckpointName
    fresh: CheckpointName
    step: int
    writer: object
    state: LoanState = "uploading"


class Arenas:
    """The arenas of one rank, by number, and the `loans`: the saves to which they belong.

    An arena belongs to a save until its writer says that it is free, or the writer's process is reaped. Until then
    nothing copies into it. `changed` guards this object, and is notified of each change. `copies`: the ranks of this
    pod, which share its memory.
    """

    def __init__(
        self,
        copies: int = 1,
        kept: KeeperMemory | None = None,
        rank: int = 0,
        numbers: tuple[int, int] = (0, 1),
        *,
        keeps_old: bool = False,
    ) -> None:
        """`kept`: keeps the arenas of this `rank` for the next process, under these `numbers`.

        It frees those of the process before. With `keeps_old` they stay until `Copies` has a newer copy.
        """
        self.copies = copies
        self._rank = rank
        self._kept = kept or KeeperMemory(None)
        self._numbers = numbers
        if not keeps_old:
            self._kept.drop(rank)
        self.by_number: dict[int, Arena] = {}
        self.loans: dict[int, Loan] = {}
        self.changed = threading.Condition()

    @classmethod
    def of_rank(cls, environment: Environment, rank: int, ranks: int, *, keeps_old: bool = False) -> "Arenas":
        """Those of a rank in its pod."""
        numbers = file_numbers(environment.identity.attempt)
        copies = max(ranks // environment.nodes, 1)
        return cls(copies, KeeperMemory(environment.keeper), rank, numbers, keeps_old=keeps_old)

    @property
    def is_busy(self) -> bool:
        """True if a checkpoint is in flight. One that is kept is not: nobody knows when it will be."""
        return any(loan.state != "kept" for loan in self.loans.values())

    @property
    def has_free(self) -> bool:
        """True if an arena is free, or there is memory for another one."""
        if len(self.loans) < len(self.by_number) or not self.by_number:
            return True
        largest = max(arena.size for arena in self.by_number.values())
        return len(self.by_number) < ARENAS and fits(largest * self.copies)

    @property
    def has_most(self) -> bool:
        """True if there are as many arenas as there may be, even if the memory has room for more."""
        return len(self.by_number) >= ARENAS

    def names(self, *states: LoanState) -> list[CheckpointName]:
        """The saves in one of these `states`."""
        return [loan.name for loan in self.loans.values() if loan.state in states]

    def take(self, size: int, make: Callable[[int, int], Arena]) -> int:
        """The number of an arena for `size` bytes that is free. `make(number, size)` makes it if it is too small."""
        free = [number for number in self.by_number if number not in self.loans]
        for number in free:
            if self.by_number[number].size >= size:
                return number
        number = free[0] if free else len(self.by_number)
        make(number, size)
        return number

    def make(self, number: int, size: int) -> Arena:
        """A new arena, in place of the one with this number, which must be free."""
        if (before := self.by_number.get(number)) is not None:
            before.close()
        arena = self.by_number[number] = Arena(size)
        arena.pin()
        self._kept.keep(self._rank, self._numbers[number], arena.descriptor)  # this frees the one before
        return arena

    def mark(self, name: CheckpointName, writer: object, state: LoanState) -> None:
        """`writer` has said in which `state` its save `name` is."""
        with self.changed:
            for _, loan in self._of(writer, name):
                loan.state = state
            self.changed.notify_all()

    def free(self, name: CheckpointName, writer: object) -> None:
        """`writer` has said that its save `name` is over."""
        with self.changed:
            for number, _ in self._of(writer, name):
                del self.loans[number]
            self.changed.notify_all()

    def free_all(self, writer: object) -> None:
        """The process of `writer` is reaped."""
        with self.changed:
            for number, _ in self._of(writer):
                del self.loans[number]
            self.changed.notify_all()

    def of(self, writer: object) -> list[Loan]:
        """What `writer` has."""
        with self.changed:
            return [loan for _, loan in self._of(writer)]

    def close(self, *, is_complete: bool = False) -> None:
        """Close all arenas. Nothing may copy into them after this call. `is_complete`: they need not be kept either."""
        for arena in self.by_number.values():
            arena.close()
        self.by_number.clear()
        if is_complete:
            self._kept.drop(self._rank)

    def _of(self, writer: object, name: CheckpointName | None = None) -> list[tuple[int, Loan]]:
        found = [(number, loan) for number, loan in self.loans.items() if loan.writer is writer]
        return [(number, loan) for number, loan in found if name is None or loan.name == name]


def _mapped(descriptor: int | None, length: int) -> tuple[int, mmap.mmap]:
    """The memory of `descriptor`, or new memory, with its descriptor. OSError: then the descriptor is closed."""
    is_new = descriptor is None
    found = memory_file("holdfast-arena") if descriptor is None else descriptor
    try:
        if is_new:
            os.ftruncate(found, length)
        return found, mmap.mmap(found, length)
    except OSError:
        os.close(found)
        raise
