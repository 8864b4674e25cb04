"""Which files are put back if only the newest save is wanted: all but its older ones, with those that it names."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from holdfast_train.folder.look import File
from holdfast_train.folder.numbered import save_of
from holdfast_train.folder.saves import Save

POINTER_BYTES: Final = 4096  # a longer file beside a save is not asked which saves it names


def named_by(texts: Iterable[str], paths: Iterable[str]) -> set[str]:
    """Those of `paths` whose last part is in one of `texts`. A number counts only behind a slash, or if it is all."""
    texts, found = list(texts), set[str]()
    for path in paths:
        name = re.escape(posixpath.basename(path))
        is_number = posixpath.basename(path).isdecimal()
        pattern = re.compile(rf"(?:\A\s*|/){name}(?=\s*\Z|[/\"'])" if is_number else rf"(?<![\w.=-]){name}(?![\w=-])")
        if any(map(pattern.search, texts)):
            found.add(path)
    return found


def to_put_back(files: Iterable[File], newest: Save, text_of: Callable[[str], str | None]) -> set[str]:
    """The paths of all `files` but older saves beside `newest` that differ from it by a number alone.

    An older one stays if `newest`, a small file beside it, or a link names it. `text_of`: as `inside.text_in`.
    """
    files = list(files)
    above, name = posixpath.split(newest.path)
    start = f"{above}/" if above else ""
    is_folder = newest.path not in {file.path for file in newest.files}
    likes = {_like(name)} if is_folder else {_like(posixpath.basename(file.path)) for file in newest.files}
    older = defaultdict[str, set[str]](set)  # by the number of the save
    asked, texts, own = [file.path for file in newest.files], list[str](), {file.path for file in newest.files}
    for file in files:
        first, _, rest = file.path[len(start) :].partition("/") if file.path.startswith(start) else ("", "", "")
        if first and file.path not in own and bool(rest) == is_folder and _like(first) in likes - {None}:
            older["/".join(re.findall(r"\d+", first))].add(file.path)
        elif file.link is not None:
            texts.append(file.link)
        elif first and not rest and file.size <= POINTER_BYTES:
            asked.append(file.path)
    texts += [text for path in asked if (text := text_of(path)) is not None]
    for paths in older.values():
        if named_by(texts, {start + path[len(start) :].partition("/")[0] for path in paths}):
            own |= paths
    gone = {path for paths in older.values() for path in paths} - own
    return {file.path for file in files} - gone


def _like(name: str) -> str | None:
    """`name` without its numbers, if one of them counts saves."""
    return None if save_of(name) is None else re.sub(r"\d+", "0", name)
