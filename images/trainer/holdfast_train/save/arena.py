"""Shared memory that a rank copies its state into and from which its writer uploads."""

import ctypes
import mmap
import os
import sys
from typing import Any, Final

from holdfast_train.errors import StateError

__all__ = ["ALIGNMENT", "Arena"]

ALIGNMENT: Final = 64  # bytes: of tensors in the arena, and of what vector instructions like
_MADV_POPULATE_WRITE: Final = 23  # <linux/mman.h>, since Linux 5.14; Python's mmap does not name it
_POPULATE_BYTES: Final = 4 << 20  # at a time: nobody else can map memory meanwhile
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Arena:
    """`size` bytes of anonymous shared memory (memfd). They live until the last process that has them closes them."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """New memory, or that behind `descriptor`, which is closed with this. StateError if there is not enough."""
        self.size = size
        length = max(size, mmap.PAGESIZE)
        self.descriptor = os.memfd_create("holdfast-arena", os.MFD_CLOEXEC) if descriptor is None else descriptor
        try:
            if descriptor is None:
                os.ftruncate(self.descriptor, length)
            self._map = mmap.mmap(self.descriptor, length)
        except OSError as error:
            os.close(self.descriptor)
            raise StateError(f"no shared memory for {size / 1e9:.2f} GB of state: {error.strerror}") from error
        self.view: Final = memoryview(self._map)
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._registered = False

    def populate(self) -> None:
        """Have the kernel give the pages now, so that the first save is as fast as later ones. May run in a thread.

        Where the kernel cannot do that (Linux before 5.14), the first save does it.
        """
        for start in range(0, len(self._map), _POPULATE_BYTES):
            length = min(_POPULATE_BYTES, len(self._map) - start)
            address = ctypes.c_void_p(self.address + start)
            if _LIBC.madvise(address, ctypes.c_size_t(length), _MADV_POPULATE_WRITE) != 0:
                return

    def pin(self) -> None:
        """Register the memory with CUDA, if this process uses it, so that a GPU can copy into it by itself."""
        torch: Any = sys.modules.get("torch")
        if self._registered or torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
            return
        torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(self.address, len(self._map), 0))
        self._registered = True

    def tensor(self, offset: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A torch tensor of this memory, which `offset` must fit."""
        torch: Any = sys.modules["torch"]
        count = 1
        for length in shape:
            count *= length
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset).view(shape)

    def copy_from(self, offset: int, address: int, size: int) -> None:
        """Copy `size` bytes from `address`, in this thread and without the interpreter's lock."""
        ctypes.memmove(self.address + offset, address, size)

    def close_descriptor(self) -> None:
        """Close the descriptor; the memory stays as long as this object, and wherever else it is mapped."""
        os.close(self.descriptor)

    def close(self) -> None:
        """Nobody copies into it any more: undo what `pin` did, and close the descriptor."""
        if self._registered:
            torch: Any = sys.modules["torch"]
            torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(self.address))
            self._registered = False
        self.close_descriptor()
