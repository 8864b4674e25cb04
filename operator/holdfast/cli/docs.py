"""Write the pages that are made from the code, or with --check fail if one is not what would be written.

python -m holdfast.cli.docs [--check] FOLDER
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.core import table

_HEADER = "<!-- Generated from operator/holdfast/core by `make crds`. Do not edit. -->\n"


def pages() -> dict[str, str]:
    """File name in the folder of docs -> content."""
    return {"decisions.md": _HEADER + table.render()}


def stale(folder: Path) -> list[Path]:
    """Pages that are missing or not what would be written."""
    wanted = {folder / name: text for name, text in pages().items()}
    return [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if --check found a page that is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.cli.docs", description="Write the generated docs.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not up to date")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    old = stale(options.folder)
    for path in old:
        if options.check:
            sys.stderr.write(f"{path} is not up to date: run `make crds`\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages()[path.name], encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return int(options.check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
