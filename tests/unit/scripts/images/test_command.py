"""What `make images` says when it cannot build."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts.images import __main__ as command
from scripts.images.errors import NO_BUILDER
from scripts.setup import ROOT

from holdfast_local.locking import exclusive


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
        (["init", "--base", "oci-archive:/nowhere.tar"], "--base oci-archive:/nowhere.tar: this is not the path"),
        (["init", "--base", f"oci-archive:{__file__}"], "test_command.py: this is not the path of an OCI archive"),
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


# Breaks if a time that no builder takes reaches one, or one that does not fit into an archive.
@pytest.mark.parametrize("time", ["yesterday", "99999999999999999"])
def test_a_wrong_time_is_named(time: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "find_builder", lambda wanted: object())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", time)
    assert command.main(["init"]) == 1
    assert f"SOURCE_DATE_EPOCH is '{time}'" in capsys.readouterr().err


# Breaks if a full disk, or Ctrl-C, is shown as a traceback.
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [(OSError(28, "No space left on device", "/a/file"), 1, "'/a/file'"), (KeyboardInterrupt(), 130, "run it again")],
    ids=["disk", "interrupt"],
)
def test_an_end_that_is_no_fault_of_the_program_is_one_line(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> str:
        raise error

    assert command.run_alone("images", work) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said


# Breaks if two builds fill the same folders: one fails, or an image has files of the other.
def test_a_second_build_waits_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    program = (
        "import sys; from pathlib import Path; from scripts.images import __main__ as command\n"
        "command.ROOT = Path(sys.argv[1]); sys.exit(command.run_alone('images', lambda: 'done'))"
    )
    with exclusive(tmp_path / "build" / ".lock"):
        second = subprocess.Popen(
            [sys.executable, "-c", program, tmp_path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert second.stderr is not None
        assert "this one starts after it" in second.stderr.readline()
        assert second.poll() is None
    assert second.communicate(timeout=60)[0] == "done\n"
    assert second.returncode == 0
