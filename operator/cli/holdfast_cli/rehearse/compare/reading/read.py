"""What is in a file, by its first bytes. A file that is not what these say is compared as bytes, with a note."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast_cli.rehearse.compare.reading.archive import read_archive
from holdfast_cli.rehearse.compare.reading.numpy_file import MAGIC, read_array
from holdfast_cli.rehearse.compare.reading.pickle_machine import BROKEN
from holdfast_cli.rehearse.compare.reading.pickles import read_pickle
from holdfast_cli.rehearse.compare.reading.safetensors_file import read_safetensors
from holdfast_cli.rehearse.compare.reading.source import Source, whole_file
from holdfast_cli.rehearse.compare.reading.text_files import read_text
from holdfast_cli.rehearse.compare.reading.values import Contents, Raw, UnreadableError

BYTES: Final = "bytes"
ALL: Final = "(all bytes)"  # the place of the whole file


def read(path: Path) -> Contents:
    """The values of a file. It raises nothing but OSError, if the file cannot be read."""
    return read_source(whole_file(path))


def read_source(source: Source) -> Contents:
    """The values of `source`. OSError."""
    head = source.read(0, 16)
    known = _format(head)
    if known is None:
        try:
            return _complete(read_text(source), source)
        except UnreadableError as error:
            return Contents(BYTES, {ALL: Raw(source)}, note="" if b"\0" in head else str(error))
    name, reader = known
    try:
        return _complete(reader(source), source)
    except UnreadableError as error:
        return Contents(BYTES, {ALL: Raw(source)}, note=f"it begins like a {name}, but {error}")
    except BROKEN as error:  # content that a reader did not expect: a comparison goes on all the same
        note = f"it begins like a {name}, but is damaged: {type(error).__name__}"
        return Contents(BYTES, {ALL: Raw(source)}, note=note)


def _format(head: bytes) -> tuple[str, Callable[[Source], Contents]] | None:
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return "ZIP archive", read_archive
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return "pickle", read_pickle
    if head.startswith(MAGIC):
        return "NumPy array", read_array
    if head[4:9] == b"\0\0\0\0{":
        return "file of safetensors", read_safetensors
    return None


def _complete(found: Contents, source: Source) -> Contents:
    """If values are left out, the bytes of the file are compared too: no difference stays unnoticed."""
    return replace(found, values={**found.values, ALL: Raw(source)}) if found.note else found
