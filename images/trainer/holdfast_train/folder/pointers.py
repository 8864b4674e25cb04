"""Links and small files beside a checkpoint that name it: without them some programs do not find it.

A link such as `latest -> step_400`; a file `latest` or `last_checkpoint` whose text is the name of the checkpoint, as
DeepSpeed and Detectron2 write it, or its step, as Megatron does. If `latest` names a newer checkpoint, which is not
saved yet, it is kept with the name of the one that is.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Final

from holdfast_train.folder.layouts import Unit
from holdfast_train.folder.look import OWN

MOST: Final = 16
MOST_BYTES: Final = 256
MOST_ENTRIES: Final = 10_000  # of a folder are looked at
_DIGITS: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Pointer:
    """`path`: below the folder. `text`: where the link leads, or what the file says."""

    path: str
    is_link: bool
    text: str


def pointers_to(root: Path, unit: Unit) -> tuple[Pointer, ...]:
    """What names `unit`, or the newest checkpoint beside it. A folder that cannot be read has none."""
    known = (pointer for folder in _folders(unit) for pointer in _in(root, folder))
    found = (meant for pointer in known if (meant := _meant(root, unit, pointer)) is not None)
    return tuple(islice(found, MOST))


def _meant(root: Path, unit: Unit, pointer: Pointer) -> Pointer | None:
    """`pointer`, with the name of `unit` in place of a name that differs only in its numbers."""
    if _names(root, unit, pointer):
        return pointer
    above, _, name = pointer.path.rpartition("/")
    own = PurePosixPath(unit.name).name
    if not _may_name(name) or above == unit.name:
        return None
    if pointer.is_link:
        head, slash, other = pointer.text.rstrip("/").rpartition("/")
        text = f"{head}{slash}{own}"
    else:
        other, text = pointer.text.strip(), own
        if other.isdecimal() and unit.step is not None:
            other, text = _with_number(root / above, own, int(other)), str(unit.step)
    meant = Pointer(pointer.path, pointer.is_link, text)
    return meant if _is_alike(other, own) and _names(root, unit, meant) else None


def _is_alike(one: str, other: str) -> bool:
    return _DIGITS.sub("0", one) == _DIGITS.sub("0", other) != ""


def _with_number(folder: Path, own: str, number: int) -> str:
    """The name in `folder` that is like `own`, with this number at its end. Empty if there is none."""
    try:
        names = [path.name for path in islice(folder.iterdir(), MOST_ENTRIES) if _is_alike(path.name, own)]
    except OSError:
        return ""
    return next((name for name in names if int((_DIGITS.findall(name) or ["-1"])[-1][:15]) == number), "")


def _folders(unit: Unit) -> list[str]:
    above = [unit.name.rpartition("/")[0]] if unit.name else []
    return above if unit.is_folder else [*above, *({unit.name} if unit.layout == "Files" else ())]


def _in(root: Path, folder: str) -> Iterator[Pointer]:
    try:
        with os.scandir(root / folder) as entries:
            known = sorted(islice(entries, MOST_ENTRIES), key=lambda entry: entry.name)
        for entry in known:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(OWN):
                continue
            if entry.is_symlink():
                yield Pointer(path, True, str(Path(entry.path).readlink()))
            elif _may_name(entry.name) and entry.is_file() and entry.stat().st_size <= MOST_BYTES:
                yield Pointer(path, False, Path(entry.path).read_bytes()[:MOST_BYTES].decode())
    except (OSError, UnicodeDecodeError):
        return


def _may_name(name: str) -> bool:
    return name.lower().startswith(("latest", "last"))


def _names(root: Path, unit: Unit, pointer: Pointer) -> bool:
    """Whether `pointer` names `unit`, and nothing outside it."""
    files = {file.path for file in unit.files}
    above, _, name = pointer.path.rpartition("/")
    if pointer.path in files or above not in _folders(unit):
        return False
    if pointer.is_link:
        return os.path.normpath(root / above / pointer.text) == os.path.normpath(root / unit.name) != str(root)
    said = pointer.text.strip()
    if not _may_name(name) or not said or "/" in said or len(pointer.text) > MOST_BYTES:
        return False
    is_step = said.isdecimal() and len(said) <= 15 and int(said) == unit.step
    inside = f"{above}/{said}" if above else said
    return inside in files or inside == unit.name or (is_step and above != unit.name)


def pointers_of(unit: Unit, known: Any) -> tuple[Pointer, ...]:
    """Those of an index. ValueError or TypeError if they are none; `put_pointers_back` checks where they lead."""
    found = tuple(Pointer(str(path), bool(is_link), str(text)) for path, is_link, text in known)
    if len(found) > MOST or any(p.path.rpartition("/")[0] not in _folders(unit) or not _is_name(p) for p in found):
        raise ValueError(f"names of the checkpoint {unit.name!r} are outside its folder")
    return found


def _is_name(pointer: Pointer) -> bool:
    name = "" if pointer.path.startswith("/") else PurePosixPath(pointer.path).name
    return name not in ("", ".", "..") and "\0" not in pointer.path + pointer.text and not name.startswith(OWN)


def put_pointers_back(root: Path, unit: Unit, pointers: tuple[Pointer, ...]) -> None:
    """Make those that are not there, and links that lead nowhere. What leads to something stays as it is."""
    for pointer in pointers:
        path = root / pointer.path
        if not _names(root, unit, pointer) or (path.exists() if pointer.is_link else os.path.lexists(path)):
            continue
        if pointer.is_link:
            path.unlink(missing_ok=True)
            path.symlink_to(pointer.text)
        else:
            path.write_text(pointer.text, encoding="utf-8")
