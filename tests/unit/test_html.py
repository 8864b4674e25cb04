"""HTML of all distributions: it is in templates, and no value becomes a part of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.setup import PROJECTS, ROOT
from tests.support.pages.hostile_values import PAGES
from tests.support.pages.read_html import Read

from holdfast_model.pages.template import Template

SOURCES = sorted(
    path
    for folder in {*PROJECTS, ROOT / "operator", ROOT / "scripts"} - {ROOT}
    for path in folder.rglob("*.py")
    if not path.is_relative_to(ROOT / "tests" / "unit")
)
NAMES = """
a b body br button circle code dd details div dl dt em form g h1 h2 h3 head html i img input kbd label li line link
main meta nav ol option p pre rect script section select small span strong style summary svg table tbody td
text th thead tr ul
"""
TAG = re.compile(rf"(?<!\?P)<(?:/|!doctype|(?:{'|'.join(NAMES.split())})(?:[\s/>]|$))", re.IGNORECASE)
HOSTILE = {
    "an element": "<script>alert(1)</script>",
    "the end of an attribute": "\"><img/src=x/onerror='alert(1)'>",
    "an attribute": "'onmouseover='alert(1)'\"autofocus=\"",
    "an attribute if there are no quotes": "x onmouseover=alert(1) y",
    "the end of the page": "</title></style></script></body><h1>&lt;b&gt;</h1>",
    "a comment": "<!--]]>--!><svg/onload=alert(1)>",
    "an address": "javascript:alert(1)",
    "signs that are not seen": "a\0b\u202e\u2066c\ufeff&#60;i>",
    "a template": "{{7*7}}{%raw%}{#",
    "signs of a format": "%s{0}{x}&amp;amp;",
}


def tree(found: Read) -> list[tuple[str, list[str]]]:
    """The elements, each with the names of its attributes."""
    return [(tag, list(attributes)) for tag, attributes in found.elements]


# Breaks if a text that a tenant, a program or a file wrote becomes an element or an attribute, or the text of a script.
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_value_changes_no_element_of_a_page(page: str, hostile: str) -> None:
    plain = "q" * len(hostile)
    shown, wanted = Read(PAGES[page](hostile)), Read(PAGES[page](plain))
    assert tree(shown) == tree(wanted)
    assert len(shown.texts) == len(wanted.texts)
    assert shown.text.count(hostile) > 3
    for tag, attributes in shown.elements:
        for name in attributes.keys() & {"href", "src", "action"}:
            assert re.match(r"[/#]|data:image/png;", attributes[name] or ""), (tag, attributes)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the value of each text that is not a docstring. Parts of f-strings count."""
    module = ast.parse(path.read_bytes())
    said = {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


# Breaks if HTML is put together in Python again, where one forgotten call lets a text through.
def test_no_python_file_contains_html() -> None:
    assert len(SOURCES) > 400
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in SOURCES
        for line, text in strings(path)
        if TAG.search(text)
    ]
    assert found == []


def calls(path: Path) -> Iterator[tuple[int, str, ast.Call]]:
    """The line of each call of a macro of the template beside a module, its name, and the call."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_HTML"), attr=name)):
                yield node.lineno, name, node


# Breaks if a template is misspelled in a branch that no other test draws.
def test_every_call_names_a_macro_and_its_arguments() -> None:
    found = 0
    for path in SOURCES:
        if path.with_suffix(".html").is_file():
            top = next(number for number, part in enumerate(path.parts) if part.startswith("holdfast_"))
            template = Template(".".join(path.with_suffix("").parts[top:]))
            for line, name, call in calls(path):
                macro: Any = getattr(template, name)
                assert {one.arg for one in call.keywords} <= {*macro.arguments, None}, f"{path}:{line}"
                assert len(call.args) <= len(macro.arguments), f"{path}:{line}"
                found += 1
    assert found > 40
