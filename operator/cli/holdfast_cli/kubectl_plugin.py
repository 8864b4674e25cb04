"""`kubectl holdfast`: the same commands under kubectl's name, and their completion for kubectl 1.26 and newer.

kubectl runs `kubectl-holdfast` with the words that follow `kubectl holdfast`. To complete a word, it runs
`kubectl_complete-holdfast` with the words so far, the last of which may be empty, and reads candidates, each with a
description after a tab, and then a directive.
"""

import io
import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, Final

PROGRAM: Final = "kubectl holdfast"
_ALSO_FILES, _NO_FILES = ":0", ":4"  # directives of kubectl's completion
_OWN = re.compile(r"(?<![\w/.-])(?<!install )holdfast (?=[a-z])")  # a command line, and not a path or a chart's name


def complete(main: Callable[[], None]) -> None:
    """Complete the words of the command line. `main` runs the program. Nothing but the answer is written."""
    asked = "complete_fish"  # the shell whose candidates typer writes as kubectl reads them
    os.environ |= {
        "_HOLDFAST_COMPLETE": asked,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": _line(sys.argv[1:]),
        "COLUMNS": "9999",  # a candidate and its description are one line
    }
    answer = io.StringIO()
    try:
        with redirect_stdout(answer):
            main()
    except SystemExit:
        found = answer.getvalue().strip("\n")
        print(*filter(None, [found]), _NO_FILES if found else _ALSO_FILES, sep="\n")


def _line(words: list[str]) -> str:
    """The command line as it was typed so far."""
    *done, last = words or [""]
    return f"{shlex.join(['holdfast', *done])} {last}"


def under_its_name(text: str) -> str:
    """The text with `kubectl holdfast` in the place of the program's own name."""
    return _OWN.sub(f"{PROGRAM} ", text)


def rename(command: Any) -> None:
    """Write the help of a command, and of its own commands, for a person who types `kubectl holdfast`."""
    command.help = under_its_name(command.help or "")
    for child in getattr(command, "commands", {}).values():
        rename(child)
