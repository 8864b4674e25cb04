"""What decides whether .venv is made anew, and where uv is kept."""

from pathlib import Path

import pytest
from scripts import setup


def test_the_digest_changes_with_the_content_of_any_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("b")
    before = setup.digest(one, other)
    assert before == setup.digest(one, other)
    other.write_text("c")
    assert before != setup.digest(one, other)


def test_every_locked_file_is_there() -> None:
    assert [path for path in setup.LOCKED if not path.is_file()] == []


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert setup.cache_dir() == tmp_path / ".cache/holdfast"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert setup.cache_dir() == tmp_path / "xdg/holdfast"
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "own"))
    assert setup.cache_dir() == tmp_path / "own"


def test_a_command_that_fails_ends_the_setup() -> None:
    with pytest.raises(SystemExit, match="`false` failed with exit code 1"):
        setup.run("false")
