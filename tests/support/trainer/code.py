"""Folders of programs."""

import os
from pathlib import Path

from holdfast_train.code.archive import kind_of
from holdfast_train.code.tree import Entry, content_hash


def entries_of(root: Path) -> list[Entry]:
    """All files and links below `root`."""
    found = []
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            where = str(path.relative_to(root))
            if path.is_symlink():
                target = os.readlink(path)  # noqa: PTH115 - Path changes ./a
                found.append(Entry(where, "link", 0, content_hash(target.encode()), target))
            elif path.is_file():
                content = path.read_bytes()
                found.append(Entry(where, kind_of(path.stat()), len(content), content_hash(content)))
    return found


def write_tree(root: Path, files: dict[str, str | bytes]) -> list[Entry]:
    """Write these files below `root`: a text that begins with `-> ` is the target of a link. Return the entries."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            target.symlink_to(content.removeprefix("-> "))
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    return entries_of(root)
