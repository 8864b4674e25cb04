"""Fixtures for tests of the examples."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built data goes into a folder of the test."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with five files of text, and one of bytes."""
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.py").write_text(f"def function_{number}(value):\n    return value + {number}\n" * 40)
    (folder / "image.bin").write_bytes(b"\0" * 10_000)
    return folder
