"""`holdfast checkpoints list`."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from holdfast.api.scalars import format_time
from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.survey import Prefix, Row, Standing, rows, survey
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_cli.terminal.output import ListOutput
from holdfast_train.commitlog import rules
from holdfast_train.commitlog.log import read
from holdfast_train.errors import KeyMissingError
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage

THREADS: Final = 8
BATCH: Final = 64
COLUMNS = (
    Column("STEP", right=True),
    Column("ATTEMPT", rank=4, right=True),
    Column("AGE", rank=2),
    Column("SIZE", right=True),
    Column("STATE"),
    Column("NAME", rank=1),
    Column("NOTE", rank=3, loose=True),
)
_STYLES = {
    Standing.OK: "green",
    Standing.CORRUPT: "bold red",
    Standing.DAMAGED: "bold red",
    Standing.LEFT: "dim",
    Standing.SET_ASIDE: "dim",
    Standing.RETIRED: "dim",
    Standing.UNCOMMITTED: "yellow",
}


@partial(on_storage, output=ListOutput)
def list_(at: Opened) -> None:
    """List the checkpoints of a job or at a storage address, newest first.

    The owner of the prefix comes first. Sizes are checked, bytes are not: verify reads them. The keys for the storage
    come from the job's Secret if you may read it, otherwise from your environment or AWS profile.

    \b
    Examples:
      holdfast checkpoints list vit-faces -n vision
      holdfast checkpoints list s3://runs/vision/vit-faces --endpoint https://minio.example:9000
      holdfast checkpoints list file:///mnt/vision/vit-faces -o json | jq '.checkpoints[0].name'
    """
    prefix, listed = look(at.storage)
    names = [str(row.name) for row in listed]
    at.answer(to_object(prefix, listed), lambda out: show(out, prefix, listed, datetime.now(UTC)), names)


def look(storage: Storage) -> tuple[Prefix, list[Row]]:
    """What is below the prefix, and every checkpoint in it. CliError if there is no log; StorageError."""
    prefix = survey(storage)
    suspects = [there.name for there in prefix.unnamed if there.manifest]
    return prefix, rows(prefix, once_committed(storage, suspects, prefix.state.seq))


def once_committed(storage: Storage, names: Collection[CheckpointName], newest: int) -> frozenset[CheckpointName]:
    """The `names` that a commit in records 1 to `newest` has. Reads backwards until all are found. StorageError.

    Retired checkpoints are mostly recent ones whose deletion was interrupted: few records are read. A name that was
    never committed costs reading the whole log. CheckpointCorruptError if a record cannot be read.
    """
    wanted, found = set(names), set[CheckpointName | None]()
    with ThreadPoolExecutor(THREADS, "holdfast-log") as pool:
        for last in range(newest, 0, -BATCH):
            if wanted == found:
                break
            for name in pool.map(lambda seq: _committed(storage, seq), range(last, max(last - BATCH, 0), -1)):
                found |= {name} & wanted
    return frozenset(wanted & found)


def _committed(storage: Storage, seq: int) -> CheckpointName | None:
    try:
        record, _ = read(storage, seq)
    except KeyMissingError:  # Holdfast never deletes records; a lifecycle rule of the bucket may
        return None
    return record.commit.name if record.commit else None


def show(out: Console, prefix: Prefix, listed: list[Row], now: datetime) -> None:
    """Print the table for people."""
    screen.print_lines(out, screen.heading(prefix.uri, prefix.state))
    out.print()
    wide = len(COLUMNS) if any(row.note for row in listed) else len(COLUMNS) - 1
    lines = [cells(row, now)[:wide] for row in listed]
    out.print(Fitting(COLUMNS[:wide], lines) if lines else Text("no checkpoints"))


def cells(row: Row, now: datetime) -> list[Text]:
    """The cells of COLUMNS."""
    return [
        Text(screen.step_of(row.name)),
        Text(str(row.name.attempt)),
        Text(formats.span(now - row.at if row.at else None)),
        Text(format_size(row.size)),
        Text(", ".join((row.standing, *row.marks)), style=_STYLES[row.standing]),
        Text(str(row.name)),
        Text(row.note, style="red"),
    ]


def to_object(prefix: Prefix, listed: list[Row]) -> dict[str, Any]:
    """What -o json prints: sizes in bytes, null where a value is not known."""
    owner, fence = prefix.state.owner, prefix.state.fence
    return {
        "uri": prefix.uri,
        "owner": {"namespace": owner.namespace, "job": owner.job, "jobUID": owner.job_uid} if owner else None,
        "fence": {"attempt": fence.attempt, "podUID": fence.pod_uid} if fence else None,
        "mayBeTraining": rules.possible_writer(prefix.state) is not None,
        "handedOver": prefix.state.handed_over,
        "complete": prefix.state.complete is not None,
        "completeAtStep": prefix.state.complete or None,
        "logRecords": prefix.state.seq,
        "checkpoints": [
            {
                "step": row.name.step or None,
                "attempt": row.name.attempt,
                "at": format_time(row.at) if row.at else None,
                "size": row.size,
                "state": row.standing,
                "name": str(row.name),
                "healthy": bool(row.commit and row.commit.healthy),
                "pinned": bool(row.commit and row.commit.pinned),
                "note": row.note or None,
            }
            for row in listed
        ],
    }
