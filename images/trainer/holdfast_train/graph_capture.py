"""CUDA calls of threads beside the training thread, which may be capturing a CUDA graph."""

import ctypes
import sys
from contextlib import suppress
from functools import cache
from typing import Any, Final

THREAD_LOCAL: Final = (
    1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: captures of other threads do not forbid calls of this one
)


def allow_calls_beside_capture() -> None:
    """Let this thread call CUDA while another thread captures a graph.

    Without it many calls (to read a tensor, to ask for an event) fail, and the capture of the other thread with them.
    torch does the same in its own background threads, and has no name for it in Python. Nothing is done without CUDA.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return
    driver = _driver()
    if driver is not None:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(THREAD_LOCAL)))


@cache
def _driver() -> Any:
    """NVIDIA's driver library, which the process has loaded already. None with ROCm, which torch calls CUDA too."""
    with suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None
