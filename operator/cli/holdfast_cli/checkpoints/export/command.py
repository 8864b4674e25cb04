"""`holdfast checkpoints export`."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.choice import BestOne, Step, choose
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.show_command import several
from holdfast_cli.checkpoints.survey import survey
from holdfast_cli.errors import CliError
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.parsing import size
from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.errors import StateError
from holdfast_train.exchange.content import Content
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.exchange.safetensors_files import write
from holdfast_train.format.manifest import OF_FOLDER
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.program import data_facts
from holdfast_train.format.selection import select
from holdfast_train.format.tree import Tree
from holdfast_train.restore.lazy_tensors import outline
from holdfast_train.restore.source import read_newest_intact
from holdfast_train.storage.retrying import RetryingStorage

FILE: Final = "model.safetensors"
Name = Annotated[str, typer.Option(help="Dotted name of what is exported, such as model, ema or model.backbone.")]
MostBytes = Annotated[
    str,
    typer.Option(
        help="Largest file, such as 5G or 512Mi; more data goes into several files with an index.", metavar="SIZE"
    ),
]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    uri: str
    content: Content
    files: tuple[Path, ...]


@on_storage
def export(
    at: Opened,
    folder: Annotated[Path, typer.Argument(help="The new folder.", show_default=False)],
    *,
    step: Step = None,
    best: BestOne = False,
    name: Name = "model",
    max_shard_size: MostBytes = "5G",
) -> None:
    """Write the weights of a checkpoint as safetensors, without torch.

    The tensors have the names of the model's state_dict and the types in which they were saved. Each chunk's checksum
    is checked; if the newest checkpoint is damaged, the one before it is taken. The folder appears when all of it is
    written. A cast to another type needs torch, and so do the formats dcp and torch.save (holdfast-train export).

    \b
    Examples:
      holdfast checkpoints export vit-faces weights -n vision
      holdfast checkpoints export s3://runs/vision/vit-faces weights --step 48000 --name ema
    """
    most = size("--max-shard-size", max_shard_size)
    place = folder.expanduser().absolute()
    _refuse_existing(place)
    wanted = at.found.name or choose(survey(at.storage), at.found.keep, step, best=best)
    if at.found.name and (step is not None or best):
        raise typer.BadParameter(f"{at.found.name} is one checkpoint: leave out --step and --best")
    try:
        with interruptible():
            made = _export(at.storage, wanted, place, name, most)
    except OSError as error:
        raise CliError(f"nothing was exported: {error.filename or place}: {error.strerror or error}") from error
    at.answer(to_object(made), lambda out: _show(out, made))


def _refuse_existing(place: Path) -> None:
    if os.path.lexists(place):  # also a link that leads nowhere
        raise CliError(f"{place} exists already", hint="use another name, or remove it first")


def _export(storage: RetryingStorage, wanted: CheckpointName | None, place: Path, name: str, most: int) -> Exported:
    def write_all(found: Found) -> Exported:
        content = content_of(found, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=place.parent, prefix=".exporting-") as temporary,
            screen.transfer("exporting", content.size) as progress,
        ):
            made = Path(temporary) / place.name
            made.mkdir()
            files = write(
                storage, found, content, made / FILE, most=most,
                advance=lambda count: progress.advance(progress.task_ids[0], count),
            )  # fmt: skip
            _refuse_existing(place)
            made.rename(place)
        return Exported(found.uri, content, tuple(place / file.name for file in sorted(files)))

    return read_newest_intact(storage, wanted, write_all)[1]


def content_of(found: Found, name: str) -> Content:
    """What is at the dotted `name` of a checkpoint. StateError, with the existing names, if nothing is there."""
    manifest = found.manifest
    if OF_FOLDER in manifest.program:
        outline(manifest.state, manifest)  # it says that these are files of a program
    saved = [pair for pair in _objects(manifest.state) if _is_part(str(pair[0]), name)]
    if not saved:
        there = ", ".join(str(key) for key, _ in _objects(manifest.state)) or "nothing"
        raise StateError(f"{found.uri} has no object at {name!r}; it has {there}")
    # Only these are unpacked: values of other objects, such as types in an optimizer, may need torch.
    objects = select(outline({"$dict": [list(pair) for pair in saved]}, manifest), name)
    return Content.of(manifest.step, objects, data_facts(manifest.program, {}))


def _objects(state: Tree) -> Sequence[tuple[Any, Any]]:
    """The objects of the Run by name, not unpacked."""
    saved: Any = state
    return [(key, tree) for key, tree in dict(saved["$dict"])["objects"]["$dict"]]


def _is_part(key: str, name: str) -> bool:
    """True if the dotted `name` is at or below the object `key`."""
    plain, key = name.replace("/", ".").rstrip("."), key.replace("/", ".")
    return plain == key or plain.startswith(f"{key}.")


def _show(out: Console, made: Exported) -> None:
    tensors, description = made.content.tensors, made.content.description
    lines = [
        made.uri,
        f"step {formats.count(description.step)}: {several(list(tensors), 'tensor')}, {format_size(made.content.size)}",
        *(f"  {file}  {format_size(file.stat().st_size)}" for file in made.files),
    ]
    if description.tied:
        tied = ", ".join(f"{name} (is {kept})" for name, kept in description.tied.items())
        lines.append(f"tied, and written once: {tied}")
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def to_object(made: Exported) -> dict[str, Any]:
    """What -o json prints: sizes in bytes."""
    description = made.content.description
    return {
        "uri": made.uri,
        "step": description.step,
        "tensors": len(made.content.tensors),
        "size": made.content.size,
        "tied": dict(description.tied),
        "files": [{"path": str(file), "size": file.stat().st_size} for file in made.files],
    }
