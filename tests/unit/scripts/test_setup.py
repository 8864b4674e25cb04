"""What decides whether .venv is made again, and where uv is kept."""

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


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The commands that a setup in a folder of the test's own runs; none is really run."""
    ran: list[str] = []
    locks = {name: tmp_path / f"{name}.txt" for name in ("dev", "docs")}
    for path in locks.values():
        path.write_text("locked")
    monkeypatch.setattr(setup, "run", lambda *command: ran.append(" ".join(map(str, command))))
    monkeypatch.setattr(setup, "uv", lambda: Path("uv"))
    monkeypatch.setattr(setup, "LOCKED", (locks["dev"],))
    monkeypatch.setattr(setup, "DOCS_LOCK", locks["docs"])
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(setup, "DOCS_STAMP", tmp_path / "docs-stamp")
    return ran


# Breaks if `make lint` asks the network for what is installed already.
def test_what_builds_the_documentation_is_installed_once(commands: list[str]) -> None:
    setup.docs()
    assert commands[-1].startswith("uv pip install") and commands[-1].endswith("docs.txt")
    commands.clear()
    setup.docs()
    assert commands == []


# Breaks if it is not installed again after a change of its lock file, or after a sync that has removed it.
def test_what_builds_the_documentation_is_installed_again(commands: list[str], tmp_path: Path) -> None:
    setup.docs()
    for changed in ("docs.txt", "dev.txt"):
        commands.clear()
        (tmp_path / changed).write_text("changed")
        setup.docs()
        assert commands[-1].endswith("docs.txt"), changed


# Breaks if an install that was interrupted counts as done.
def test_an_install_that_fails_is_tried_again(commands: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*command: str | Path) -> None:
        raise SystemExit(" ".join(map(str, command)))

    setup.setup()
    with monkeypatch.context() as patch:
        patch.setattr(setup, "run", fail)
        with pytest.raises(SystemExit):
            setup.docs()
    commands.clear()
    setup.docs()
    assert len(commands) == 1
