"""Fixtures for tests of export and import."""

from pathlib import Path

import pytest


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """The folder of a job's checkpoints."""
    return tmp_path / "prefix"
