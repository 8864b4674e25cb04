"""Fixtures of the trainer's unit tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint, serving
from tests.support.trainer.stores import writer_in_thread


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    """A progress endpoint over TLS."""
    with serving(tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers are threads here; tests/integration/trainer has them as processes."""
    monkeypatch.setattr("holdfast_train.save.saver.start_writer", writer_in_thread)
