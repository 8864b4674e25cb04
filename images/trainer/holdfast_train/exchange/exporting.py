"""Export of a checkpoint to files of another format. After an error no file is left."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.exchange import safetensors_files, safetensors_layout, torch_files
from holdfast_train.exchange.content import Content
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import data_facts
from holdfast_train.format.selection import Only, dotted, is_within, select
from holdfast_train.restore.lazy_tensors import outline
from holdfast_train.restore.source import read_newest_intact
from holdfast_train.storage.retrying import RetryingStorage

Format = Literal["safetensors", "dcp", "torch"]
FORMATS: Final = ("safetensors", "dcp", "torch")
FILE: Final = "model.safetensors"


@dataclass(frozen=True)
class Exported:
    """What was written. `values`: names of values that are not tensors."""

    uri: str
    content: Content
    files: tuple[Path, ...]
    values: tuple[str, ...]


def export(
    storage: RetryingStorage,
    name: CheckpointName | None,
    destination: Path,
    form: Format,
    *,
    only: Only = None,
    max_shard_size: int,
    begin: Callable[[int], Callable[[int], None]],
) -> Exported:
    """Write the parts of a checkpoint that `only` names to `destination`, which must not exist.

    `destination` becomes a folder (safetensors, dcp) or a file (torch; safetensors if the name ends so). `begin` is
    called with the number of bytes; the function that it returns is called with the bytes of each read.
    NoCheckpointError, StateError, StorageErrors, OSError.
    """
    _refuse_existing(destination)
    alone = form == "safetensors" and destination.suffix == safetensors_layout.SUFFIX

    def write(found: Found) -> Exported:
        objects = outlines(found, only)
        if not objects:
            raise StateError(f"{found.uri} has no objects: there is nothing to export")
        content = Content.of(found.manifest.step, objects, data_facts(found.manifest.program, {}))
        advance = begin(content.size)
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".exporting-") as folder:
            made = Path(folder) / destination.name
            if form == "torch":
                files = torch_files.write_torch(storage, found, content, made, advance)
            elif form == "dcp":
                files = torch_files.write_dcp(storage, found, content, made, advance)
            else:
                if not alone:
                    made.mkdir()
                file = made if alone else made / FILE
                files = safetensors_files.write(storage, found, content, file, most=max_shard_size, advance=advance)
            placed = tuple(destination.parent / file.relative_to(folder) for file in files)
            _move(list(zip(files, placed, strict=True)) if alone else [(made, destination)])
        values = tuple(path for path, value in dotted(objects) if _is_value(value))
        return Exported(found.uri, content, placed, values)

    return read_newest_intact(storage, name, write)[1]


def outlines(found: Found, only: Only) -> dict[str, Any]:
    """The objects, or the parts of them, that `only` names, without the bytes of tensors.

    Other objects are not unpacked: their values, such as types in an optimizer, may need torch. StateError, with the
    existing names, if nothing has that name.
    """
    manifest = found.manifest
    if only is None or manifest.state is None:
        return dict(outline(manifest.state, manifest)["objects"])
    names = [only] if isinstance(only, str) else only
    state: Any = manifest.state
    pairs = dict(state["$dict"])["objects"]["$dict"]
    named: list[Any] = [[key, tree] for key, tree in pairs if any(is_within(name, str(key)) for name in names)]
    return select({**dict(pairs), **outline({"$dict": named}, manifest)}, only)


def _is_value(value: object) -> bool:
    """True for numbers, strings and lists of them: only the description of the state keeps them exactly."""
    return value is None or isinstance(value, bool | int | float | str | bytes | list | tuple)


def _move(pairs: Sequence[tuple[Path, Path]]) -> None:
    for _, place in pairs:
        _refuse_existing(place)
    for made, place in pairs:
        shutil.move(made, place)


def _refuse_existing(place: Path) -> None:
    if os.path.lexists(place):  # also a link that leads nowhere
        raise StateError(f"{place} exists already: use another name, or remove it first")
