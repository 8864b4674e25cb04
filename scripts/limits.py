"""Say which files, functions and folders are larger than usual in this house; `make lint` runs it.

    python -m scripts.limits

Usual are at most 400 lines for a file, 60 for a function, and 20 modules for a folder, besides `__init__.py` and
`conftest.py`. A larger one is a question, not a fault: split it if it has two jobs, and otherwise name it in EXCEPTIONS
with the reason. Only an exception that is not needed any more fails.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("operator", "images", "tests", "scripts")
FILE_LINES = 400
FUNCTION_LINES = 60
FOLDER_MODULES = 20
NOT_COUNTED = ("__init__.py", "conftest.py")
# What may be larger, as a path from the root, or `path:function`: why.
EXCEPTIONS: dict[str, str] = {
    "operator/holdfast/api": "one file for each part of the objects, and for each way to check and describe them",
}


class Large(NamedTuple):
    """Something that is larger than usual: a path, or `path:function`, and how large it is."""

    name: str
    words: str


def too_large(root: Path) -> Iterator[Large]:
    """Each file, function and folder below `root` that is larger than usual."""
    folders: Counter[Path] = Counter()
    for path in sorted(path for source in SOURCES for path in (root / source).rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root)
        folders[name.parent] += name.name not in NOT_COUNTED
        if (lines := text.count("\n")) > FILE_LINES:
            yield Large(str(name), f"{name} has {lines} lines; usual are at most {FILE_LINES}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    words = f"{name}:{node.lineno} {node.name} has {lines} lines; usual are at most {FUNCTION_LINES}"
                    yield Large(f"{name}:{node.name}", words)
    for folder, modules in sorted(folders.items()):
        if modules > FOLDER_MODULES:
            yield Large(str(folder), f"{folder} has {modules} modules; usual are at most {FOLDER_MODULES}")


def judge(found: Iterable[Large], exceptions: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Warnings, and faults: exceptions that nothing needs."""
    names = {one.name: one.words for one in found}
    warnings = [words for name, words in names.items() if name not in exceptions]
    return warnings, [f"{name} is within the limits: remove it from EXCEPTIONS" for name in exceptions.keys() - names]


def main() -> int:
    """Print what is too large; 1 if an exception is not needed."""
    warnings, faults = judge(too_large(ROOT), EXCEPTIONS)
    for line in (*(f"warning: {words}" for words in warnings), *faults):
        print(line, file=sys.stderr)  # noqa: T201 - a command for people
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
