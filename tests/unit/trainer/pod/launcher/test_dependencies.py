"""What the launcher does with packages of trainer.code.dependencies, and when it refuses them."""

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.launched import start, verdict_of

from holdfast_protocol.dependencies import LIST_FILE, Dependencies, Need
from holdfast_protocol.document import to_text

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER = "3.9" if HERE != "3.9" else "3.10"


def pod(folder: Path, python: str = HERE, needs: tuple[str, ...] = ()) -> dict[str, Any]:
    """The variables of a pod with a package `extra`, its command, and a list."""
    place = folder / "dependencies"
    (place / "bin").mkdir(parents=True)
    (place / "extra.py").write_text("NAME = 'of the folder'\n")
    (place / "bin/extra-tool").write_text("#!/usr/bin/env python3\nimport extra; print('tool', extra.NAME)\n")
    (place / "bin/extra-tool").chmod(0o755)
    listed = Dependencies(python, tuple(Need(one, "extra") for one in needs))
    (place / LIST_FILE).write_text(to_text(listed))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"dependencies": "0" * 64, "HOLDFAST_DEPENDENCIES_DIR": str(place), "HOLDFAST_JOB": "", "PATH": path}


def run(folder: Path, *command: str, **variables: Any) -> tuple[dict[str, Any], str]:
    """The verdict, and all that was printed."""
    process = start(folder / "log", *command, **variables)
    printed, said = process.communicate(timeout=60)
    return verdict_of(folder / "log"), said + printed


# Breaks if the program does not find its packages and their commands, or if what it has set itself is gone.
def test_the_program_finds_its_packages(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine.py").write_text("")
    (tmp_path / "own/extra.py").write_text("NAME = 'of the image'\n")
    shown = "import extra, mine, os, subprocess; print(extra.NAME); subprocess.run(['extra-tool'], check=True)"
    verdict, said = run(tmp_path, "python3", "-c", shown, **pod(tmp_path), PYTHONPATH=str(tmp_path / "own"))
    assert verdict["outcome"] == "completed", said
    assert said.splitlines()[-2:] == ["of the folder", "tool of the folder"]


# Breaks if packages that were chosen for one Python are imported by another.
def test_another_python(tmp_path: Path) -> None:
    verdict, said = run(tmp_path, "python3", "-c", "print('ran')", **pod(tmp_path, OTHER))
    assert "ran" not in said.splitlines()
    assert (verdict["outcome"], verdict["reason"]) == ("misconfigured", "DependenciesDoNotFit")
    assert (
        f"were chosen for Python {OTHER}, and the image has {HERE}: run the command again with --python {HERE}" in said
    )


# Breaks if the version of Python is not compared because versions of packages cannot be.
def test_a_python_that_cannot_compare_versions(tmp_path: Path) -> None:
    variables = pod(tmp_path, OTHER, needs=("numpy<1",))
    for name in ("packaging", "pip"):
        (tmp_path / f"dependencies/{name}.py").write_text("raise ImportError\n")
    verdict, said = run(tmp_path, "python3", "-c", "print('ran')", **variables)
    assert (verdict["reason"], "numpy" in str(verdict["message"])) == ("DependenciesDoNotFit", False)
    assert "the packages of the image were not compared: it has neither packaging nor pip" in said


# Breaks if a program runs with another torch than its packages need, or with none.
@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (("numpy>=1", f"numpy=={version('numpy')}"), ""),
        (
            ("numpy>=1", "numpy<1"),
            f"extra needs numpy<1, which is taken from the image, and the image has {version('numpy')}",
        ),
        (
            ("no-such-package>=2",),
            "extra needs no-such-package>=2, which is taken from the image, and the image does not",
        ),
    ],
)
def test_what_the_image_must_have(tmp_path: Path, needs: tuple[str, ...], words: str) -> None:
    verdict, said = run(tmp_path, "python3", "-c", "print('ran')", **pod(tmp_path, needs=needs))
    assert (verdict["outcome"] == "completed") == (not words)
    assert words in said
    assert ("ran" in said.splitlines()) == (not words)


# Breaks if another Python than that of the program is asked, or if a program that is not of Python is refused for it.
def test_which_python_is_asked(tmp_path: Path) -> None:
    needs = ("no-such-package>=2",)
    variables = pod(tmp_path, needs=needs)
    verdict, said = run(tmp_path, "sh", "-c", "echo ran", **variables)
    assert (verdict["outcome"], "may not fit: extra needs" in said) == ("completed", True)
    verdict, said = run(tmp_path, "extra-tool", **variables)
    assert (verdict["reason"], "tool" in said.splitlines()) == ("DependenciesDoNotFit", False)
    verdict, said = run(tmp_path, "env", "A=1", "python3", "-c", "print('ran')", **variables)
    assert (verdict["reason"], "ran" in said.splitlines()) == ("DependenciesDoNotFit", False)
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable}\nprint('ran')\n")
    script.chmod(0o755)
    verdict, said = run(tmp_path, str(script), **variables)
    assert verdict["reason"] == "DependenciesDoNotFit"


# Breaks if a Python that cannot answer hides that nothing was compared.
def test_a_python_that_cannot_answer(tmp_path: Path) -> None:
    variables = pod(tmp_path, needs=("numpy>=1",))
    (tmp_path / "dependencies/packaging.py").write_text("raise RuntimeError('not today')\n")
    verdict, said = run(tmp_path, "python3", "-c", "print('ran')", **variables)
    assert verdict["outcome"] == "completed"
    assert "trainer.code.dependencies were not compared with the image: RuntimeError: not today" in said


# Breaks if a pod without a list ends without a verdict.
def test_a_list_that_cannot_be_read(tmp_path: Path) -> None:
    variables = pod(tmp_path)
    for content in (b"{}", None):
        (tmp_path / "dependencies" / LIST_FILE).unlink()
        if content is not None:
            (tmp_path / "dependencies" / LIST_FILE).write_bytes(content)
        verdict, said = run(tmp_path, "python3", "-c", "print('ran')", **variables)
        assert (verdict["reason"], "ran" in said.splitlines()) == ("DependenciesDoNotFit", False)
        assert "the list of the packages cannot be read" in said
