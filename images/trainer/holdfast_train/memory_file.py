"""Files in memory that have no name (memfd)."""

import ctypes
import errno
import os
import platform
from typing import Final

# The number of the system call on each kind of machine: <asm/unistd.h> of Linux.
_NUMBERS: Final = {"aarch64": 279, "ppc64le": 360, "riscv64": 279, "s390x": 350, "x86_64": 319}
_MFD_CLOEXEC: Final = 1  # <linux/memfd.h>
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def memory_file(name: str) -> int:
    """The descriptor of a new empty file in memory, which no started program inherits. `name`: as /proc shows it.

    OSError if there is none. Every kernel since Linux 3.17 can make one, but a Python that was built for an old glibc
    (conda, python-build-standalone) lacks the function for it. A file in /dev/shm would not do: a container's /dev/shm
    has 64 MiB unless the pod asks for more.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"this Python has no os.memfd_create, and {machine} is not a known machine")
    flags = ctypes.c_uint(_MFD_CLOEXEC)
    descriptor: int = _LIBC.syscall(ctypes.c_long(_NUMBERS[machine]), ctypes.c_char_p(name.encode()), flags)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor
