"""Which versions of the libraries the tests of this folder train with, and that the page of the reference says it."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from tests.support.trainer.exact import process_context

ROOT = Path(__file__).parents[4]
LIBRARIES = ("transformers", "accelerate", "lightning")


def locked(name: str) -> dict[str, str]:
    """The versions of the libraries in a requirement file."""
    text = (ROOT / "requirements" / name).read_text()
    return {name: re.findall(rf"^{name}==(\S+)", text, re.MULTILINE)[0] for name in LIBRARIES}


def version(library: str) -> str:
    return str(importlib.import_module(library).__version__)


# Breaks if `make test-versions` trains with the versions of `make test`.
@pytest.mark.training
def test_processes_train_with_the_versions_of_the_requirement_file() -> None:
    name = "versions.txt" if Path(sys.prefix).name == ".venv-versions" else "dev.txt"
    with process_context().Pool(1) as pool:  # as the trainings of the other tests
        assert dict(zip(LIBRARIES, pool.map(version, LIBRARIES), strict=True)) == locked(name)


# Breaks if a requirement file changes, and the page does not, or if both files have one version.
def test_the_page_says_the_versions() -> None:
    page = (ROOT / "docs" / "reference" / "frameworks.md").read_text()
    today, before = locked("dev.txt"), locked("versions.txt")
    for library in LIBRARIES:
        assert f"| {library} | {today[library]} | {before[library]} |" in page
        assert today[library].split(".")[:2] != before[library].split(".")[:2]
