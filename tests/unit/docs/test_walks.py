"""The walks in the architecture page name files and functions that exist."""

import ast
import re

import pytest
from tests.unit.docs.pages import DOCS, ROOT, prose

SHORT = {
    "H/": "operator/holdfast/",
    "T/": "images/trainer/holdfast_train/",
    "P/": "operator/protocol/holdfast_protocol/",
}
_ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|$", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str, str, str]]]:
    section = prose(DOCS / "concepts" / "architecture.md").split("\n## Walks\n")[1]
    return {title: _ROW.findall(text) for title, _, text in (w.partition("\n") for w in section.split("\n### ")[1:])}


def defined(path: str) -> set[str]:
    """Functions, classes, and methods as Class.method, of a module."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{name}" for name in inner}
    return found


def test_there_are_seven_walks() -> None:
    assert len(walks()) == 7


# Breaks if a file is moved or a function is renamed, and the walk still has the old name.
@pytest.mark.parametrize("title", walks())
def test_a_walk_names_what_exists_in_at_most_twelve_lines(title: str) -> None:
    rows = walks()[title]
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert 5 <= len(rows) <= 12
    for number, file, function, _ in rows:
        path = SHORT[file[:2]] + file[2:]
        assert (ROOT / path).is_file(), f"{title}, step {number}: {path} does not exist"
        assert function in defined(path), f"{title}, step {number}: {path} has no {function}"
