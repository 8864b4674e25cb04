"""Data that takes a second a sample, by a clock that nothing else moves."""

from typing import Any

import pytest

from holdfast_train.data_wait import DATA_WAIT


class SlowData:
    """A data set over `values`. The measure of the wait for data sees a second pass for each sample that is read."""

    def __init__(self, values: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._values = values
        self._now = 0.0
        self._begun = DATA_WAIT.seconds
        monkeypatch.setattr("holdfast_train.data_wait.perf_counter", lambda: self._now)
        monkeypatch.setattr(DATA_WAIT, "thread", None)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Any:
        self._now += 1.0
        return self._values[index]

    @property
    def read(self) -> float:
        """How many samples were read."""
        return self._now

    @property
    def waited(self) -> float:
        """For how many seconds training waited, as far as it is known."""
        return DATA_WAIT.seconds - self._begun
