"""Ignore files, with the rules of git: of the patterns that fit a path, the last one counts.

A pattern is compared with a path alone, not with the folders above it: a folder that is left out is not looked into.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_ANYWHERE: Final = "^(?:.+/)?"  # how pathspec begins the expression of a name that may lie in any folder
_FOLDER: Final = "(?P<ps_d>/)"  # how it marks the end of a folder's path
_END: Final = f"(?:{_FOLDER}|$)"


@dataclass(frozen=True)
class _Rule:
    takes_in: bool
    regex: re.Pattern[str]
    is_of_name: bool  # a name in any folder, and not a path


class IgnoreFile:
    """The patterns of one file. `base`: the folder that it is for, "" or with a slash at the end."""

    def __init__(self, lines: Iterable[str], base: str, where: str) -> None:
        """ValueError, which says `where`, if a line is not a pattern."""
        self._base = base
        self._rules: list[_Rule] = []
        self._ways: list[tuple[str, ...]] = []
        for number, line in enumerate(lines, 1):
            try:
                self._add(line)
            except (ValueError, re.error) as error:  # re.error: pathspec checks no ranges, such as [z-a]
                raise ValueError(f"{where}, line {number}: {line!r} is not a pattern: {error}") from error
        self._rules.reverse()
        of_name = [rule.regex.pattern for rule in self._rules if rule.is_of_name]
        self._any_name = re.compile("|".join(f"(?:{text})" for text in of_name)) if of_name else None
        self._has_paths = len(of_name) < len(self._rules)

    def _add(self, line: str) -> None:
        pattern = GitIgnoreSpecPattern(line.rstrip("\r\n"))
        if pattern.include is None or pattern.regex is None:
            return
        text, is_of_name = _exact(pattern.regex.pattern)
        self._rules.append(_Rule(not pattern.include, re.compile(text), is_of_name))
        if not pattern.include:
            self._ways.append(tuple(line.strip().removeprefix("!").strip("/").split("/")[:-1]))

    def takes_in(self, path: str, name: str, *, is_folder: bool) -> bool | None:
        """False: the path is left out. True: a pattern with `!` takes it in. None: no pattern fits.

        `path`: below `base`, with it. `name`: its last part.
        """
        end = "/" if is_folder else ""
        name += end
        has_name = self._any_name is not None and self._any_name.fullmatch(name) is not None
        if not has_name and not self._has_paths:
            return None
        below = path[len(self._base) :] + end
        for rule in self._rules:
            if rule.is_of_name:
                if has_name and rule.regex.fullmatch(name):
                    return rule.takes_in
            elif rule.regex.fullmatch(below):
                return rule.takes_in
        return None

    def takes_in_below(self, path: str) -> bool:
        """True if a pattern with `!`, such as `!data/words.txt`, may take in something below the folder `path`.

        Patterns of names alone, such as `!words.txt`, do not: for them each folder that is left out would be read.
        """
        parts = path[len(self._base) :].split("/")
        return any(_leads(way, parts) for way in self._ways)


def _exact(text: str) -> tuple[str, bool]:
    """The expression for the path itself, of one of pathspec, which also fits all that lies below. And: is it of a
    name?
    """
    if text == _FOLDER:  # any folder
        return "[^/]+/", True
    if text == ".":  # all
        return "[^/]+/?", True
    if text.endswith("/"):  # all that lies below
        return f"{text}.+", False
    text = text.replace(_END, "/?").replace(_FOLDER, "/")
    rest = text.removeprefix(_ANYWHERE)
    if rest != text and "/" not in rest.removesuffix("?").removesuffix("/").replace("[^/]", ""):
        return rest, True
    return text, False


def _leads(way: Sequence[str], parts: Sequence[str]) -> bool:
    """True if the folder `parts` may be one of `way`, the folders of a pattern, or lie above one."""
    for number, part in enumerate(parts):
        if number == len(way) or way[0] == "**":
            return False
        if way[number] == "**":
            return True
        if not fnmatchcase(part, way[number]):
            return False
    return True


def lines_of(data: bytes) -> list[str]:
    """The lines of an ignore file. Bytes that are not UTF-8 stay what they are in names of files."""
    return os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")
