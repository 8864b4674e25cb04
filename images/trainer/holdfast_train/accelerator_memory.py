"""The most memory of an accelerator that the tensors of this process had at one time."""

import sys
from typing import Any


def peak_memory() -> int | None:
    """Bytes, on the device of this process that had most; None without CUDA, or if its allocator does not count.

    The context of CUDA, the caches of the allocator and libraries that allocate by themselves are not in it. Any
    thread may call this; nothing waits for the device.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():  # asking would make a context
        return None
    try:
        return max(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count())) or None
    except RuntimeError:  # an allocator of the program's own, or a device that is lost
        return None
