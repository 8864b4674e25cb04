"""Shared memory: a rank copies its state into it, and the rank's writer process uploads from it."""

import ctypes
import errno
import mmap
import os
import sys
from typing import Any, Final

from holdfast_train.errors import StateError
from holdfast_train.memory_file import memory_file

__all__ = ["ALIGNMENT", "Arena"]

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
