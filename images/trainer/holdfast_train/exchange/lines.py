"""Lines on a terminal, in a file or a pipe. Names and errors in them may come from a stranger."""

import sys
from typing import TextIO


def show(text: str = "") -> None:
    """Print one line on standard output."""
    _write(sys.stdout, printable(text))


def say(text: str) -> None:
    """Print one line on standard error."""
    _write(sys.stderr, printable(text))


def show_json(text: str) -> None:
    """Print JSON, in which everything that is not ASCII is escaped already."""
    _write(sys.stdout, text)


def _write(file: TextIO, text: str) -> None:
    encoding = file.encoding or "utf-8"
    file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    file.flush()


def printable(text: str) -> str:
    """One line, without signs that drive a terminal, and with bytes that are not text written out."""
    said = text.encode("utf-8", "backslashreplace").decode()
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in said)
