"""Which files are not those of the commit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.setup import ROOT

SHOW = "from scripts.images.source import read_source; print(*sorted(read_source().changed))"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A small repository with this code that reads its source."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ".gitignore").write_text("__pycache__/\n/build/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@holdfast.test", "commit", "--quiet", "--message", "all")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.check_call(["git", *arguments], cwd=folder)


def changed(folder: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.check_output([sys.executable, "-c", SHOW], cwd=folder, env=environment, text=True)
    return done.split()


# Breaks if files are hidden by what a user has set for git: wheels, which know .gitignore alone, would have them.
def test_files_that_git_status_hides_are_found(clone: Path) -> None:
    assert changed(clone) == []
    (clone / "build").mkdir()
    for name in ("build/output", "scripts/new.py", "scripts/images/old.orig", "scripts/private"):
        (clone / name).write_text("text")
    with (clone / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    (clone / "build/for-all").write_text("*.orig\n")
    (clone / ".git/info/exclude").write_text("private\n")
    git(clone, "config", "core.excludesFile", str(clone / "build/for-all"))
    git(clone, "config", "status.showUntrackedFiles", "no")
    assert changed(clone) == ["pyproject.toml", "scripts/images/old.orig", "scripts/new.py", "scripts/private"]
