"""Fixtures of the tests of `Run`."""

from pathlib import Path

import pytest
from tests.support.trainer.runs import Flaky


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A prefix in a folder."""
    return f"file://{tmp_path}/prefix"


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> Flaky:
    """A storage that can be broken."""
    return Flaky(monkeypatch)
