"""Shared memory as the engine has it, every page in place and full of bytes without a pattern."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def shared_memory(size: int) -> Iterator[memoryview]:
    """`size` bytes of a memfd."""
    descriptor = os.memfd_create("bench")
    os.ftruncate(descriptor, size)
    memory = mmap.mmap(descriptor, size)
    block = os.urandom(1 << 20)
    for at in range(0, size, len(block)):
        memory[at : at + len(block)] = block[: size - at]
    yield memoryview(memory)  # unmapped when the last view of it is gone
    os.close(descriptor)
