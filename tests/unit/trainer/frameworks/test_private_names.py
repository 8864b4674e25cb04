"""The private names of other libraries that Holdfast uses are listed in the docs, and the libraries have them."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from tests.support.trainer.stores import REPOSITORY

PAGE: Final = REPOSITORY / "docs/reference/frameworks.md"
CODE: Final = REPOSITORY / "images/trainer/holdfast_train/frameworks"
PRIVATE: Final = re.compile("_[a-z][a-z_]*")


def listed() -> Iterator[tuple[str, str]]:
    """Each module with each of its names."""
    section = PAGE.read_text().partition("### Private names")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \|", section, re.MULTILINE):
        for name in re.findall("`([^`]+)`", row[1]):
            yield row[0], name


def used(path: Path) -> set[str]:
    """The private names in a file that are not attributes of its own objects."""
    own, others = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
            is_super = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            (own if is_own or is_super else others).add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PRIVATE.fullmatch(node.value):
            others.add(node.value)
    return others - own


# Breaks if a private name is used that nobody looks after, or is listed and not used any more.
def test_the_page_lists_what_the_code_uses() -> None:
    assert set().union(*map(used, CODE.glob("*.py"))) == {name for _, name in listed()}


@pytest.mark.parametrize(("module", "name"), [*listed()])
def test_the_library_has_it(module: str, name: str) -> None:
    found = re.search(rf"\b{name}\b", inspect.getsource(import_module(module)))
    assert found, f"{module} of this version has no {name}: docs/reference/frameworks.md says what Holdfast uses it for"
