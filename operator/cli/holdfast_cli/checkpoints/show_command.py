"""`holdfast checkpoints show`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.api.scalars import format_time
from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.compare import kind
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.options import Chosen
from holdfast_cli.checkpoints.pick import LATEST, select
from holdfast_cli.checkpoints.survey import survey
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_protocol.document import readable
from holdfast_train.code.store import fetch
from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.folder.index import read_index
from holdfast_train.folder.look import File
from holdfast_train.format.manifest import OF_FOLDER, Manifest
from holdfast_train.format.program import CODE
from holdfast_train.format.tree import TensorEntry
from holdfast_train.storage.base import Storage

LARGEST = 8
TENSOR_COLUMNS = (
    Column("TENSOR"),
    Column("DTYPE", rank=1),
    Column("SHAPE", rank=2),
    Column("BYTES", right=True),
    Column("SHARDS", rank=3, right=True),
)
FILE_COLUMNS = (Column("PATH"), Column("SIZE", right=True), Column("WRITTEN", rank=1))
OBJECT_COLUMNS = (Column("OBJECT"), Column("TENSORS", right=True), Column("SIZE", right=True))


@on_storage
def show(
    at: Opened,
    checkpoint: Chosen = LATEST,
    *,
    tensors: Annotated[bool, typer.Option("--tensors", help="List all tensors.")] = False,
    under: Annotated[
        str | None,
        typer.Option(
            help="List tensors whose names begin with this, such as model/blocks.0 or model.blocks.0.",
            show_default=False,
        ),
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(
            help="Write the files of the program that saved it into this folder, a new or an empty one.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what is in a checkpoint: versions, metrics, objects and tensors; of checkpoint.folder, its files.

    Only its manifest is read, and the list of its files. The exit code is 4 if no tensor's name begins with --under.

    \b
    Examples:
      holdfast checkpoints show vit-faces -n vision
      holdfast checkpoints show vit-faces 48000 --under model/blocks.0
      holdfast checkpoints show vit-faces 48000 --code ./as-it-was
    """
    selected = select(survey(at.storage), str(at.found.name or checkpoint))
    read = read_manifest(at.storage, selected)
    if code is not None:
        write_code(at.storage, read, code)
    files = files_of(at.storage, read)
    listed = read.tensors if tensors else None
    if under is not None:
        listed = tuple(t for t in read.tensors if _dotted(t.name).startswith(_dotted(under)))
        if not listed:
            there = f"its objects are {', '.join(objects(read)) or 'files, without tensors'}"
            raise CliError(f"no tensor of {read.name} begins with {under}; {there}", code=ExitCode.NOT_FOUND)

    def print_answer(out: Console) -> None:
        if listed is None:
            print_manifest(out, read, datetime.now(UTC), files)
        else:
            out.print(_table(listed) if listed else Text("no tensors"))

    at.answer(to_object(read, read.tensors if listed is None else listed, files), print_answer)


def write_code(storage: Storage, found: Manifest, folder: Path) -> None:
    """Write the folder of the program that saved a checkpoint. CliError if it is not known, or `folder` has files."""
    sha256 = found.program.get(CODE)
    if sha256 is None:
        raise CliError(
            f"{found.name} does not say which code saved it: its job had no trainer.code", code=ExitCode.NOT_FOUND
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CliError(f"{folder} is not empty", code=ExitCode.USAGE, hint="name a new folder")
        fetch(storage, sha256, folder, is_writable=True)
    except OSError as error:
        raise CliError(f"{folder} cannot be written: {error.strerror}") from error


def files_of(storage: Storage, found: Manifest) -> tuple[File, ...]:
    """The files of a checkpoint of checkpoint.folder, the newest first; none of another one."""
    if OF_FOLDER not in found.program:
        return ()
    files = [saved.file for saved in read_index(storage, Found(storage.uri, b"", found)).files.values()]
    return tuple(sorted(files, key=lambda file: (-file.mtime_ns, file.path)))


def print_manifest(out: Console, found: Manifest, now: datetime, files: Sequence[File] = ()) -> None:
    """Print a manifest, and the files of a folder, for people."""
    at = datetime.fromisoformat(found.at)
    facts = {
        "step": screen.step_of(found.name),
        "attempt": str(found.attempt),
        "written": f"{formats.moment(at)} ({formats.ago(at, now)})",
        "job UID": found.job_uid,
        "size": f"{format_size(found.size)} in {several(found.parts, 'part')}, {several(found.tensors, 'tensor')}",
        "ranks": formats.count(len(found.ranks)),
    }
    if shared := {name: size for name, size in found.sizes.items() if name != found.name}:
        names = ", ".join(map(str, sorted(shared)))
        what = "unchanged files" if found.state is None else "frozen parameters"
        facts[what] = f"{format_size(sum(shared.values()))} in {names}"
    out.print(Text(str(found.name), style="bold"), soft_wrap=True)
    out.print(_grid(facts))
    for title, mapping in (("versions", found.versions), ("program", found.program), ("metrics", found.metrics)):
        if mapping:
            _section(out, title, _grid(mapping))
    held = by_object(found).items()
    lines = [[Text(name), Text(formats.count(n)), Text(format_size(size))] for name, (n, size) in held]
    if found.state is not None:  # otherwise it has the files of a checkpoint.folder
        _section(out, "objects", Fitting(OBJECT_COLUMNS, lines) if lines else Text("none"))
    largest = sorted(found.tensors, key=lambda t: t.size, reverse=True)[:LARGEST]
    if largest:
        _section(out, "largest tensors", _table(largest))
    if files:
        _section(out, several(files, "file"), Fitting(FILE_COLUMNS, [_file_cells(file) for file in files]))


def several(things: Sequence[Any], what: str) -> str:
    """`1 part`, `3 parts`."""
    return f"{len(things):,} {what}{'' if len(things) == 1 else 's'}"


def objects(found: Manifest) -> list[str]:
    """The names of the objects that the program gave to its Run, in its order; none if it has no Run."""
    if found.state is None:
        return []
    state: Any = found.state  # not unpacked: its types would need torch, and only names are wanted
    return [name for name, _ in dict(state["$dict"])["objects"]["$dict"]]


def by_object(found: Manifest) -> dict[str, tuple[int, int]]:
    """Number and bytes of tensors by the object that the program gave to its Run; the largest first."""
    made = dict.fromkeys(objects(found), (0, 0))
    for tensor in found.tensors:
        name = owner(tensor.name)
        number, size = made.get(name, (0, 0))
        made[name] = number + 1, size + tensor.size
    return dict(sorted(made.items(), key=lambda item: item[1][1], reverse=True))


def owner(tensor: str) -> str:
    """`model` for `model/...`; what belongs to single ranks is shown together."""
    top = tensor.split("/", maxsplit=1)[0]
    return "(of single ranks)" if top.startswith("@") else top


def _dotted(name: str) -> str:
    """The name with dots, as holdfast-train writes names. Keys may contain dots: slashes cannot be restored."""
    return name.replace("/", ".")


def _section(out: Console, title: str, body: Any) -> None:
    out.print(Text(f"\n{title.upper()}", style="bold"))
    out.print(Padding(body, (0, 0, 0, 2), expand=False))


def _grid(facts: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for name, value in facts.items():
        grid.add_row(Text(name, style="dim"), Text(value))
    return grid


def _table(tensors: Sequence[TensorEntry]) -> Fitting:
    sharded = any(len(tensor.shards) > 1 for tensor in tensors)
    wide = len(TENSOR_COLUMNS) if sharded else len(TENSOR_COLUMNS) - 1
    return Fitting(TENSOR_COLUMNS[:wide], [_cells(tensor)[:wide] for tensor in tensors])


def _cells(tensor: TensorEntry) -> list[Text]:
    dtype, _, shape = kind(tensor).partition(" [")
    cells = (tensor.name, dtype, f"[{shape}", formats.count(tensor.size), str(len(tensor.shards)))
    return [Text(cell) for cell in cells]


def _file_cells(file: File) -> list[Text]:
    link = "" if file.link is None else f" -> {readable(file.link)}"
    return [Text(readable(file.path) + link), Text(format_size(file.size)), Text(formats.moment(_written(file)))]


def _written(file: File) -> datetime | None:
    """When the file was written; None for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(file.mtime_ns / 1e9, UTC)
    except (OverflowError, ValueError):
        return None


def to_object(found: Manifest, tensors: Sequence[TensorEntry], files: Sequence[File] = ()) -> dict[str, Any]:
    """What -o json prints: sizes in bytes."""
    return {
        "name": str(found.name),
        "step": found.step or None,
        "attempt": found.attempt,
        "at": found.at,
        "jobUID": found.job_uid,
        "size": found.size,
        "ranks": len(found.ranks),
        "versions": dict(found.versions),
        "program": dict(found.program),
        "metrics": dict(found.metrics),
        "objects": [{"name": n, "tensors": t, "size": s} for n, (t, s) in by_object(found).items()],
        "parts": [{"key": part.key, "size": part.size, "chunks": len(part.crc64nvme)} for part in found.parts],
        "tensors": [
            {
                "name": t.name,
                "kind": t.kind,
                "dtype": t.dtype,
                "shape": t.shape,
                "shards": len(t.shards),
                "size": t.size,
            }
            for t in tensors
        ],
        "files": [
            {
                "path": readable(file.path),
                "size": file.size,
                "at": None if (at := _written(file)) is None else format_time(at),
                "mode": f"{file.mode:04o}",
                "link": None if file.link is None else readable(file.link),
            }
            for file in files
        ],
    }
