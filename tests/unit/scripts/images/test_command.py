"""What `make images` says when it cannot build."""

from pathlib import Path

import pytest
from scripts.images import __main__ as command
from scripts.images.errors import NO_BUILDER


# Breaks if a program is believed to build because a file has its name: this `docker` has no BuildKit.
def test_without_a_builder_that_works_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho unknown flag: --quiet >&2\nexit 125\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["init"]) == NO_BUILDER
    said = capsys.readouterr().err
    assert "apt-get install buildah" in said
    assert "unknown flag: --quiet" in said
    assert "podman is not installed" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "nothing: not known; there are operator, init, trainer"),
        (["init", "--arch", "riscv64"], "riscv64: not known; there are amd64, arm64"),
        (["init", "--python", "/nowhere/python3"], "--python /nowhere/python3: uv finds no such Python"),
    ],
)
# Breaks if a wrong argument is found after minutes, or shown as a traceback.
def test_a_wrong_argument_is_named(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_builder", lambda wanted: object())  # none is needed to read arguments
    assert command.main(arguments) == 1
    assert words in capsys.readouterr().err


# Breaks if a time that no builder takes reaches one.
def test_a_wrong_time_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "find_builder", lambda wanted: object())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert command.main(["init"]) == 1
    assert "SOURCE_DATE_EPOCH is 'yesterday'" in capsys.readouterr().err
