"""Threads beside training disturb no capture of a CUDA graph. With a GPU: tests/integration/trainer/test_cuda.py."""

import ctypes
from typing import Any

import pytest
import torch

from holdfast_train import graph_capture


class Driver:
    """Notes the modes that threads set."""

    def __init__(self) -> None:
        self.modes: list[int] = []

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:  # noqa: N802
        self.modes.append(mode._obj.value)
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(graph_capture, "_driver", lambda: found)
    return found


def test_without_cuda_nothing_is_done(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    graph_capture.allow_calls_beside_capture()
    assert driver.modes == []


def test_with_cuda_captures_of_other_threads_forbid_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    graph_capture.allow_calls_beside_capture()
    assert driver.modes == [1]  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def test_without_the_drivers_library_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    graph_capture._driver.cache_clear()
    assert graph_capture._driver() is None
    graph_capture._driver.cache_clear()
