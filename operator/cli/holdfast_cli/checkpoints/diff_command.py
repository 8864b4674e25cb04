"""`holdfast checkpoints diff`."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.byte_stream import Stream
from holdfast_cli.checkpoints.compare import Changed, Comparison, compare, kind, plain_values
from holdfast_cli.checkpoints.compare_bytes import same
from holdfast_cli.checkpoints.damage import THREADS
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.options import First, Second
from holdfast_cli.checkpoints.pick import select
from holdfast_cli.checkpoints.survey import survey
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.tree import TensorEntry
from holdfast_train.storage.base import Storage

NONE = "-"


@dataclass(frozen=True, slots=True)
class Answer:
    """What differs between two checkpoints. `bytes_differ` and `plain` are None if --values was not given."""

    first: Manifest
    second: Manifest
    comparison: Comparison
    bytes_differ: Sequence[str] | None = None
    plain: Sequence[Changed] | None = None


@on_storage
def diff(
    at: Opened,
    first: First,
    second: Second,
    *,
    values: Annotated[
        bool, typer.Option("--values", help="Also compare the bytes of tensors, and plain values.")
    ] = False,
) -> None:
    """Show what differs between two checkpoints.

    Compares names, types and shapes of tensors, versions and the program. With --values most tensors are compared by
    checksums; only where these cannot decide is data read.

    \b
    Examples:
      holdfast checkpoints diff vit-faces 48000 latest -n vision
      holdfast checkpoints diff s3://runs/vision/vit-faces 100 200 --values
    """
    prefix = survey(at.storage)
    a, b = (read_manifest(at.storage, select(prefix, text)) for text in (first, second))
    answer = Answer(a, b, compare(a, b))
    if values:
        changed = differing(at.storage, a, b, answer.comparison.common)
        answer = replace(answer, bytes_differ=changed, plain=plain_values(a, b))
    at.answer(to_object(answer), lambda out: show(out, answer))


def differing(
    storage: Storage, a: Manifest, b: Manifest, common: Sequence[tuple[TensorEntry, TensorEntry]]
) -> list[str]:
    """The names of tensors whose bytes differ. StorageError; CheckpointCorruptError if data is missing."""
    total = sum(tensor.size for tensor, _ in common)
    with screen.transfer("comparing", total) as progress, ThreadPoolExecutor(THREADS, "holdfast-get") as pool:

        def look(pair: tuple[TensorEntry, TensorEntry]) -> str | None:
            equal = same(Stream(storage, a), pair[0], Stream(storage, b), pair[1])
            progress.advance(progress.task_ids[0], pair[0].size)
            return None if equal else pair[0].name

        return [name for name in pool.map(look, common) if name is not None]


def show(out: Console, answer: Answer) -> None:
    """Print for people; a line with - is in the first only, with + in the second only."""
    comparison, bytes_differ = answer.comparison, answer.bytes_differ
    for mark, found, style in (("-", answer.first, "red"), ("+", answer.second, "green")):
        about = f"{found.name}  step {screen.step_of(found.name)}, {format_size(found.size)}"
        out.print(Text(f"{mark} {about}", style=style), soft_wrap=True)
    _lines(out, "facts changed", _changes(comparison.facts))
    _lines(out, "tensors removed", [Text(f"- {t.name}  {kind(t)}", style="red") for t in comparison.removed])
    _lines(out, "tensors added", [Text(f"+ {t.name}  {kind(t)}", style="green") for t in comparison.added])
    _lines(out, "type or shape changed", _changes(comparison.changed))
    _lines(out, "plain values changed", _changes(answer.plain or ()))
    _lines(out, "bytes changed", [Text(f"~ {name}", style="yellow") for name in bytes_differ or ()])
    out.print(Text(f"\n{summary(comparison, bytes_differ)}"))


def summary(comparison: Comparison, bytes_differ: Sequence[str] | None) -> str:
    """The number of tensors that are equal, changed, removed and added."""
    common = len(comparison.common)
    alike = (
        f"{common:,} have the same name, type and shape (--values compares their bytes)"
        if bytes_differ is None
        else f"{common - len(bytes_differ):,} have equal bytes; {len(bytes_differ):,} have different bytes"
    )
    return (
        f"tensors: {alike}; {len(comparison.changed):,} changed type or shape, {len(comparison.removed):,} removed, "
        f"{len(comparison.added):,} added"
    )


def _lines(out: Console, title: str, lines: Iterable[Text]) -> None:
    lines = list(lines)
    if lines:
        out.print(Text(f"\n{title.upper()}", style="bold"))
        for line in lines:
            out.print(Text("  ").append_text(line), soft_wrap=True)


def _changes(changes: Sequence[Changed]) -> list[Text]:
    return [
        Text.assemble(f"{c.name}  ", (c.first or NONE, "red"), (" -> ", "dim"), (c.second or NONE, "green"))
        for c in changes
    ]


def to_object(answer: Answer) -> dict[str, Any]:
    """What -o json prints; null where --values was not given, or where one checkpoint has no such value."""
    a, b, comparison = answer.first, answer.second, answer.comparison
    return {
        "first": {"name": str(a.name), "step": a.step or None, "size": a.size},
        "second": {"name": str(b.name), "step": b.step or None, "size": b.size},
        "facts": _objects(comparison.facts),
        "removed": [t.name for t in comparison.removed],
        "added": [t.name for t in comparison.added],
        "changed": _objects(comparison.changed),
        "bytesDiffer": None if answer.bytes_differ is None else list(answer.bytes_differ),
        "plainValues": None if answer.plain is None else _objects(answer.plain),
        "common": len(comparison.common),
    }


def _objects(changes: Sequence[Changed]) -> list[dict[str, str | None]]:
    return [{"name": c.name, "first": c.first, "second": c.second} for c in changes]
