"""No name that goes between operator and pod is a literal on both sides, where it would drift."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[3]
OPERATOR = tuple(ROOT / "operator" / "holdfast" / room for room in ("api", "core", "serve", "runtime"))
POD = (ROOT / "images" / "trainer" / "holdfast_train",)
# Reason, fieldName, VARIABLE_NAME, /path, Header-Name or file.name.
WIRE = re.compile(r"[A-Z][a-z0-9]+\w*|[a-z]+[A-Z]\w*|[A-Z]+(_[A-Z]+)+|[/\w.-]*\w[/.-]\w[/\w.-]*")
LEAST = 5  # characters
ALLOWED = {
    *("Authorization", "Content-Type", "Retry-After", "application/json", "utf-8", "/dev/shm"),  # of HTTP and Linux
    *("ALL_PROXY", "WANDB_RESUME", "WANDB_RUN_ID", "us-east-1"),  # of other programs
    *("Ignore", "Never", "Rollback"),  # of the settings, whose type is checked
    "checkpoint.folder",  # a field of spec here, a word of the manifest there
    "Failure",  # a kind of an end here, a status of Kubernetes there
    *("holdfast-data", "holdfast-init", "holdfast-launcher"),  # names of volumes here, of threads and a command there
}


@cache
def literals(folders: tuple[Path, ...]) -> dict[str, str]:
    """Each text that looks like a name of the wire -> one place."""
    found = {}
    for path in [path for folder in folders for path in folder.rglob("*.py")]:
        for node in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if len(node.value) >= LEAST and WIRE.fullmatch(node.value):
                found[node.value] = f"{path.relative_to(ROOT)}:{node.lineno}"
    return found


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """The texts in the code, without docstrings, annotations and `__all__`."""
    types = {getattr(tree, "annotation", None), getattr(tree, "returns", None)}
    for child in (child for child in ast.iter_child_nodes(tree) if child not in types):
        is_list = isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "__all__"
        is_said = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if is_list or is_said:
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child
        yield from texts(child)


def test_no_name_of_the_wire_is_written_on_both_sides() -> None:
    operator, pod = literals(OPERATOR), literals(POD)
    twice = {name: (operator[name], pod[name]) for name in operator.keys() & pod.keys() - ALLOWED}
    assert twice == {}, "put it into operator/protocol/holdfast_protocol, and use it on both sides"


def test_each_word_that_is_allowed_is_on_both_sides() -> None:
    assert literals(OPERATOR).keys() & literals(POD).keys() >= ALLOWED


# Breaks if the test above finds nothing.
def test_names_are_found_and_prose_is_not() -> None:
    code = """
    \"\"\"Docstring\"\"\"
    __all__ = ["Listed"]
    told = {"podUID": 1, "a text": 2}
    if reason == "SavedAndLeft":
        call(f"{job}/progress/now", header="Retry-After")
    """
    found = [one.value for one in texts(ast.parse(dedent(code))) if WIRE.fullmatch(one.value)]
    assert found == ["podUID", "SavedAndLeft", "/progress/now", "Retry-After"]
