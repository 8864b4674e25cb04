"""Whether a checkpoint is complete: by the mark of its layout, or because each of its files is whole by itself."""

import json
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_train.folder.layouts import COMMITTED, METADATA, RANDOM_STATES, STATE, Unit
from holdfast_train.folder.look import File
from holdfast_train.folder.names import SUFFIXES

INCOMPLETE: Final = "checkpoint-is-incomplete.txt"  # Hugging Face keeps it in a folder while it saves on SIGTERM
JSON_BYTES: Final = 64 << 20  # a longer file is not read
TENSORS: Final = ".safetensors"
SHARDS: Final = ".index.json"  # names the files of a model that has several

_METRIC: Final = re.compile(r"[\w./-]{1,64}")
_BEFORE_ZIP: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save without _use_new_zipfile_serialization
_WEIGHTS: Final = (*SUFFIXES, TENSORS)


def has_mark(root: Path, unit: Unit) -> bool:
    """True if `is_marked` tells a whole checkpoint from a half one. Otherwise only time can. OSError: see there."""
    if unit.layout == "Pattern" and not all(file.path.endswith(SUFFIXES) for file in unit.files):
        return False
    return unit.layout not in ("Files", "Pattern") or not any(_is_before_zip(root, file) for file in unit.files)


def is_marked(root: Path, unit: Unit) -> bool:
    """True if the layout's own mark of a complete checkpoint is there. OSError if a file cannot be read."""
    names = {file.path[len(unit.name) + 1 :] if unit.name else file.path for file in unit.files}
    if not names or INCOMPLETE in names:
        return False
    if unit.layout == "HuggingFace":
        return STATE in names and _state(root, unit) is not None
    if unit.layout == "Accelerate":
        return RANDOM_STATES in names
    if unit.layout == "Distributed":
        marked = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2] == METADATA}
        return bool(marked) and {name.rpartition("/")[0] for name in names if name.endswith(".distcp")} <= marked
    if unit.layout == "Orbax":
        return COMMITTED in names
    known = [file for file in unit.files if file.link is None and file.path.endswith(_WEIGHTS)]
    return (bool(known) or unit.layout == "Pattern") and all(_is_whole(root, file) for file in unit.files)


def _is_whole(root: Path, file: File) -> bool:
    """False if the content of `file` says that a part of it, or of what it names, is missing."""
    path = root / file.path
    if file.link is not None or file.is_other:
        return True
    if file.path.endswith(SUFFIXES):
        return _is_archive(path) or _is_before_zip(root, file)
    if file.path.endswith(TENSORS):
        return _is_tensors(path, file.size)
    return not file.path.endswith(SHARDS) or _has_shards(path)


def _is_archive(path: Path) -> bool:
    """True if the end of a ZIP archive is there: torch.save writes it last."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.filelist)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError, EOFError):
        return False


def _is_before_zip(root: Path, file: File) -> bool:
    """True for a file of torch.save in its first format, whose end nothing marks."""
    if file.link is not None or file.is_other or not file.path.endswith(SUFFIXES):
        return False
    with (root / file.path).open("rb") as opened:
        return opened.read(len(_BEFORE_ZIP)) == _BEFORE_ZIP


def _is_tensors(path: Path, size: int) -> bool:
    """True if the file is as long as its header says."""
    with path.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 2 <= length <= min(size - 8, JSON_BYTES):
            return False
        try:
            header = json.loads(opened.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            return size == 8 + length + max(ends, default=0)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return False


def _has_shards(path: Path) -> bool:
    """True if all files are there that an index names. An index of another kind names none."""
    found = _json(path)
    shards = found.get("weight_map") if found is not None else None
    names = {name for name in shards.values() if isinstance(name, str)} if isinstance(shards, dict) else set()
    return found is not None and all(os.path.lexists(path.parent / name) for name in names if "\0" not in name)


def _json(path: Path) -> dict[str, Any] | None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > JSON_BYTES:
        return None
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _state(root: Path, unit: Unit) -> dict[str, Any] | None:
    return _json(root / unit.name / STATE)


def metrics_of(root: Path, unit: Unit) -> Mapping[str, str]:
    """The newest value of each metric that the Hugging Face Trainer has noted; empty for other layouts."""
    state = _state(root, unit) if unit.layout == "HuggingFace" else None
    found: dict[str, str] = {}
    history = state.get("log_history") if state else None
    for entry in history if isinstance(history, list) else ():
        for name, value in entry.items() if isinstance(entry, dict) else ():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and name != "step" and _METRIC.fullmatch(name) and (len(found) < 64 or name in found):
                found[name] = f"{value:.6g}"
    return found
