"""Fail if a file, a function or a folder is larger than the house allows; `make lint` runs it.

    python -m scripts.limits

Files have at most 400 lines, functions at most 60, folders at most 20 modules besides `__init__.py` and `conftest.py`.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("operator", "images", "tests", "scripts")
FILE_LINES = 400
FUNCTION_LINES = 60
FOLDER_MODULES = 20
NOT_COUNTED = ("__init__.py", "conftest.py")


def too_large(root: Path) -> Iterator[str]:
    """One line for each file, function and folder below `root` that is over its limit."""
    folders: Counter[Path] = Counter()
    for path in sorted(path for source in SOURCES for path in (root / source).rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root)
        folders[name.parent] += name.name not in NOT_COUNTED
        if (lines := text.count("\n")) > FILE_LINES:
            yield f"{name} has {lines} lines; at most {FILE_LINES} are allowed"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield f"{name}:{node.lineno} {node.name} has {lines} lines; at most {FUNCTION_LINES} are allowed"
    for folder, modules in sorted(folders.items()):
        if modules > FOLDER_MODULES:
            yield f"{folder} has {modules} modules; at most {FOLDER_MODULES} are allowed"


def main() -> int:
    """Print what is too large; 1 if something is."""
    found = list(too_large(ROOT))
    for line in found:
        print(line, file=sys.stderr)  # noqa: T201 - a command for people
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
