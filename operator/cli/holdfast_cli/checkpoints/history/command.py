"""`holdfast checkpoints history`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.history import csv_file
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_train.series.history import History, Part, read_history
from holdfast_train.series.rows import stored_number

COLUMNS = (
    Column("ATTEMPT", right=True),
    Column("STEPS", right=True),
    Column("LOST", right=True),
    Column("ROWS", rank=2, right=True),
    Column("FIRST LOSS", rank=1, right=True),
    Column("LAST LOSS", right=True),
    Column("OTHER METRICS", rank=3),
)


@on_storage
def history(
    at: Opened,
    *,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write all rows into this file.", show_default=False, dir_okay=False)
    ] = None,
    most: Annotated[int, typer.Option("--most", help="Thin to about so many rows.", min=2, max=10_000_000)] = 100_000,
) -> None:
    """Show what a training measured in each attempt, and which steps were lost.

    The history is beside the checkpoints and stays when the job is deleted. A step is lost if a later attempt trained
    it again. What cannot be read is named, and the rest is shown. The exit code is 4 if there is no history.

    \b
    Examples:
      holdfast checkpoints history vit-faces -n vision
      holdfast checkpoints history s3://runs/vision/vit-faces --csv vit-faces.csv
    """
    found = read_history(at.storage, most_rows=most)
    if not found.parts:
        why = "; ".join(found.gaps) or (
            "no attempt has written one yet, or the prefix is wrong; an attempt writes one if its program uses "
            "holdfast_train.Run, or if checkpoint.folder is set and the program reports or prints its loss"
        )
        raise CliError(f"there is no history below {at.storage.uri}: {why}", code=ExitCode.NOT_FOUND)
    screen.notes(found.gaps)
    if csv is not None:
        _write(found, csv)

    def print_answer(out: Console) -> None:
        out.print(Fitting(COLUMNS, [_cells(part) for part in found.parts]))

    at.answer(to_object(found), print_answer)


def _write(found: History, path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            written = csv_file.write(found, file)
    except OSError as error:
        raise CliError(f"--csv: {path} cannot be written: {error.strerror}") from error
    screen.notes([f"{formats.count(written)} rows are in {path}"])


def _cells(part: Part) -> list[Text]:
    losses = [row.values["loss"] for row in part.rows if "loss" in row.values]
    others = sorted({name for row in part.rows for name in row.values} - {"loss"})
    first, last = part.rows[0].step, part.rows[-1].step
    shown = [f"{loss:.4g}" for loss in (losses[0], losses[-1])] if losses else [formats.NOTHING] * 2
    steps = f"{formats.count(first)}-{formats.count(last)}"
    cells = [
        str(part.attempt),
        steps,
        formats.count(part.lost_steps),
        formats.count(len(part.rows)),
        *shown,
        ", ".join(others),
    ]
    return [Text(cell) for cell in cells]


def to_object(found: History) -> dict[str, Any]:
    """What -o json prints. JSON has no NaN and no infinity: these are texts."""
    return {
        "gaps": list(found.gaps),
        "attempts": [
            {
                "attempt": part.attempt,
                "keptThrough": part.kept_through,
                "rows": [{"step": row.step, "at": row.at, "values": _stored(row.values)} for row in part.rows],
            }
            for part in found.parts
        ],
    }


def _stored(values: Mapping[str, float]) -> dict[str, Any]:
    return {name: stored_number(value) for name, value in values.items()}
