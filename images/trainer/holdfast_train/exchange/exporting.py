"""From a checkpoint of Holdfast to files of another format: whole or not at all."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.exchange import safetensors_files, torch_files
from holdfast_train.exchange.content import Content
from holdfast_train.format.selection import Only, dotted, select
from holdfast_train.restore.lazy_tensors import outline
from holdfast_train.restore.source import PATIENCE, newest_that_holds
from holdfast_train.storage.retrying import Patient

__all__ = ["FORMATS", "Exported", "Format", "export"]

Format = Literal["safetensors", "dcp", "torch"]
FORMATS: Final = ("safetensors", "dcp", "torch")
FILE: Final = "model.safetensors"


@dataclass(frozen=True)
class Exported:
    """What was written. `beside`: names of values that are no tensors, in an order."""

    uri: str
    content: Content
    files: tuple[Path, ...]
    beside: tuple[str, ...]


def export(
    storage: Patient,
    name: str | None,
    destination: Path,
    form: Format,
    *,
    only: Only = None,
    max_shard_size: int,
    begin: Callable[[int], Callable[[int], None]],
) -> Exported:
    """Write what `only` names of a checkpoint to `destination`, which must not exist. See `Exported`.

    A folder (safetensors, dcp) or a file (torch; safetensors if it ends so). Nothing is there after an error. `begin`
    is told how many bytes there are, and gives what hears of those that are read. NoCheckpointError, StateError,
    StorageErrors, OSError.
    """
    if destination.exists():
        raise StateError(f"{destination} exists already: name one that does not, or remove it first")
    alone = form == "safetensors" and destination.suffix == safetensors_files.SUFFIX

    def write(found: Found) -> Exported:
        objects = select(outline(found.manifest.state, found.manifest)["objects"], only)
        if not objects:
            raise StateError(f"{found.uri} holds no objects: there is nothing to export")
        content = Content.of(found.manifest.step, objects)
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
        beside = tuple(path for path, value in dotted(objects) if _is_plain(value))
        return Exported(found.uri, content, placed, beside)

    with storage.within(PATIENCE):
        return newest_that_holds(storage, name, write)[1]


def _is_plain(value: object) -> bool:
    """Is it a number, a text, or a list of such, which no format but ours reads as it was?"""
    return value is None or isinstance(value, bool | int | float | str | bytes | list | tuple)


def _move(pairs: Sequence[tuple[Path, Path]]) -> None:
    for _, place in pairs:
        if place.exists():
            raise StateError(f"{place} exists already: name another one, or remove it first")
    for made, place in pairs:
        shutil.move(made, place)
