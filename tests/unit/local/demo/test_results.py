"""The folder that the demo leaves."""

import tempfile
from pathlib import Path

import pytest

from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.results import results


def test_it_stays_if_the_demo_comes_to_its_end(tmp_path: Path) -> None:
    with results(tmp_path / "a" / "b") as folder:
        (folder / "page.html").touch()
    assert (tmp_path / "a" / "b" / "page.html").exists()


# Breaks if a demo that was interrupted leaves half of its results.
@pytest.mark.parametrize("error", [KeyboardInterrupt, DemoError])
def test_it_is_removed_if_the_demo_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(error), results(None) as folder:
        (folder / "half").touch()
        raise error("over")
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(DemoError, match="exists already"), results(tmp_path):
        pass
    with pytest.raises(DemoError, match="Not a directory"), results(tmp_path / "mine" / "x"):
        pass
    assert (tmp_path / "mine").exists()
