"""The git revision of a program, from real repositories, and from what only looks like one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast_train.format.revision import revision_of, revision_of_program


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A Person", "-c", "user.email=person@example.invalid", "-c", "init.defaultBranch=main"]
    found = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "deep" / "down").mkdir(parents=True)
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "first")
    return folder


def test_branches_tags_and_packs(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    assert revision_of(repository) == revision_of(repository / "deep" / "down") == first
    git(repository, "checkout", "-b", "feature/one")
    git(repository, "commit", "--allow-empty", "-m", "second")
    second = git(repository, "rev-parse", "HEAD")
    assert revision_of(repository) == second != first
    git(repository, "pack-refs", "--all", "--prune")
    assert not (repository / ".git/refs/heads/feature/one").exists()
    assert revision_of(repository) == second
    git(repository, "checkout", "--detach", first)
    assert revision_of(repository) == first


def test_worktrees_and_submodules(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--allow-empty", "-m", "there")
    assert revision_of(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD") != revision_of(repository)
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", str(repository), "inner")
    assert revision_of(outer / "inner") == revision_of(repository)
    assert revision_of(outer) is None  # nothing is committed yet


@pytest.mark.parametrize(
    "head", [b"", b"ref: refs/heads/missing", b"ref: HEAD", b"\xff\xfe", b"not a hash", b"ref: ../../../etc/passwd"]
)
def test_a_folder_outside_git_has_no_revision(tmp_path: Path, head: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(head)
    assert revision_of(tmp_path) is None


def test_a_file_that_points_nowhere(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert revision_of(tmp_path) is None


def test_the_main_script_comes_first(repository: Path, tmp_path: Path) -> None:
    script = repository / "deep" / "train.py"
    script.write_text("from holdfast_train.format.revision import revision_of_program\nprint(revision_of_program())\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    assert_prints(git(repository, "rev-parse", "HEAD"), [str(script)], outside)
    code = script.read_text()
    assert_prints(git(repository, "rev-parse", "HEAD"), ["-c", code], repository)
    assert_prints("None", ["-c", code], outside)
    gone = f"import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir(os.getcwd())\n{code}"
    assert_prints("None", ["-c", gone], outside)


def assert_prints(wanted: str, arguments: list[str], folder: Path) -> None:
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, wanted), done.stderr


def test_this_process() -> None:
    assert revision_of_program() is None or len(revision_of_program() or "") in (40, 64)
