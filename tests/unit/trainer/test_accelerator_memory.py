"""The peak of an accelerator's memory, with a torch that says what a test wants."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast_train.accelerator_memory import peak_memory
from holdfast_train.progress import Progress


def a_torch(monkeypatch: pytest.MonkeyPatch, *peaks: int, used: bool = True, error: bool = False) -> None:
    def peak(device: int) -> int:
        if error:
            raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")
        return peaks[device]

    cuda: Any = SimpleNamespace(is_initialized=lambda: used, device_count=lambda: len(peaks), max_memory_allocated=peak)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


def test_the_device_that_had_most(monkeypatch: pytest.MonkeyPatch) -> None:
    a_torch(monkeypatch, 0, 5 << 30, 1 << 30)
    assert peak_memory() == 5 << 30
    progress = Progress()
    assert progress.peak_memory == 5 << 30
    progress.ranks_peak = 6 << 30
    assert progress.peak_memory == 6 << 30


# Breaks if a program on a CPU gets a context of CUDA from a report, or a figure that says 0.
def test_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    a_torch(monkeypatch, 7, used=False, error=True)
    assert peak_memory() is None
    a_torch(monkeypatch, 0)
    assert peak_memory() is None
    a_torch(monkeypatch, 7, error=True)
    assert peak_memory() is None
    monkeypatch.delitem(sys.modules, "torch")
    assert peak_memory() is None
    assert Progress().peak_memory is None
