"""`holdfast checkpoints prune`."""

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.checkpoints import screen
from holdfast.cli.checkpoints.damage import THREADS
from holdfast.cli.checkpoints.manifests import read_manifest
from holdfast.cli.checkpoints.options import AsJson, Endpoint, Place, Region
from holdfast.cli.checkpoints.pick import Selected
from holdfast.cli.checkpoints.prune_plan import Plan, broken_commits, plan, still_unnamed
from holdfast.cli.checkpoints.storage_address import Found, Where, explain, opened
from holdfast.cli.checkpoints.survey import Prefix, newest_state, person, survey
from holdfast.cli.cluster.options import Kubeconfig, Namespace
from holdfast.cli.errors import CliError
from holdfast.cli.ui import formats
from holdfast.cli.ui.console import console
from holdfast.cli.ui.fitted_table import Column, Fitting
from holdfast.cli.ui.parsing import duration
from holdfast_train.commitlog.records import Keep, LogState
from holdfast_train.errors import CheckpointCorruptError, FencedError, KeyMissingError, StorageError
from holdfast_train.storage.base import Storage

COLUMNS = (Column("STEP", right=True), Column("SIZE", right=True), Column("NAME", rank=1), Column("WHY", loose=True))
_ORPHANS_HINT = "without --keep-last and --keep-every it removes only what the log does not name"


def prune(
    place: Place,
    *,
    keep_last: Annotated[
        int | None,
        typer.Option(
            min=1, help="Drop committed checkpoints but the newest so many that hold; else none.", show_default=False
        ),
    ] = None,
    keep_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --keep-last: keep one of each such time, too. Else what the job says; 0s for none.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="Leave what the log does not name alone until it is so old.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    namespace: Namespace = None,
    endpoint: Endpoint = None,
    region: Region = None,
    as_json: AsJson = False,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete what saves that were cut off left behind, and with --keep-last old checkpoints.

    Safe beside a training that runs: what its log names, and what its attempt may be writing, is not touched.
    Committed checkpoints go only while no attempt may be training, by a record in the log; the newest that holds
    always stays, and only those whose manifest and sizes hold count as kept. Training applies checkpoint.keep of its
    own accord. A job that starts from a checkpoint here by its address is not seen.

    \b
    Examples:
      holdfast checkpoints prune vit-faces -n vision --dry-run
      holdfast checkpoints prune s3://runs/vision/vit-faces --keep-last 1 --yes
    """
    old, every = (
        duration("--older-than", older_than),
        None if keep_every is None else duration("--keep-every", keep_every),
    )
    where = Where(place, namespace, kubeconfig, endpoint, region)
    with opened(where) as (found, storage):
        screen.notes(found.notes)
        keep = retention(found, keep_last, every)
        prefix = survey(storage)
        broken = broken_commits(prefix, _unreadable(storage, prefix)) if keep else {}
        made = plan(prefix, keep, broken, old, datetime.now(UTC))
        if made.refused:
            raise CliError(
                f"committed checkpoints of {prefix.uri} are not dropped now: attempt {made.refused.attempt} may be "
                f"training. It has the newest fence, and has neither handed over nor completed",
                hint=f"suspend the job, or wait until it is complete; {_ORPHANS_HINT}",
            )
        if not as_json:
            show(console(), made)
        if made.items and not dry_run:
            _ask(made, yes=yes, can_ask=not as_json)
            carry_out(storage, prefix.state, made)
    if as_json:
        typer.echo(json.dumps(to_object(prefix, made, dry_run=dry_run), indent=2))
    elif made.items:
        done = "would be deleted (--dry-run)" if dry_run else "deleted"
        console().print(f"{formats.count(len(made.items))} {done}, {formats.size(made.size)}", markup=False)


def retention(found: Found, last: int | None, every: timedelta | None) -> Keep | None:
    """What the options ask for, filled up from the job's own; None if no committed checkpoint is to go."""
    if last is None and every is None:
        return None
    own = found.keep
    if last is None and own is None:
        raise typer.BadParameter(
            "it needs --keep-last with it, where there is no job to say that", param_hint="--keep-every"
        )
    if every is None and own is not None:
        every = own.every
    best = own.best if own else None
    return Keep(
        last or (own.last if own else 1),
        every.total_seconds() if every else None,
        best.count if best else 0,
        best.metric if best else None,
        best.mode if best else "Min",
    )


def _unreadable(storage: Storage, prefix: Prefix) -> dict[int, str]:
    """Commits whose manifests are not what was committed, and why. StorageError."""
    found = {}
    for commit in prefix.state.commits:
        try:
            read_manifest(storage, Selected(commit.name, commit))
        except (CheckpointCorruptError, KeyMissingError) as error:
            found[commit.seq] = str(error)
    return found


def show(out: Console, made: Plan) -> None:
    """Print what goes, and what stays though one might think that it goes."""
    if made.items:
        rows = [
            [Text(formats.count(i.step)), Text(formats.size(i.size)), Text(i.name), Text(i.why)] for i in made.items
        ]
        out.print(Fitting(COLUMNS, rows))
    else:
        out.print("nothing to delete")
    for kept in made.kept:
        out.print(Text(f"stays: {kept.name}: {kept.why}", style="dim"), soft_wrap=True)


def _ask(made: Plan, *, yes: bool, can_ask: bool) -> None:
    """Raises CliError, or ends the command, if nobody says yes."""
    if yes:
        return
    if not (can_ask and sys.stdin.isatty()):
        raise CliError("nothing was deleted: nobody can be asked", hint="give --yes, or --dry-run to look first")
    typer.confirm(f"Delete {len(made.items)} ({formats.size(made.size)})?", abort=True)


def carry_out(storage: Storage, seen: LogState, made: Plan) -> None:
    """Append the record that drops the commits, then delete. Raises CliError; StorageError."""
    state = _drop(storage, seen, made.retired) if made.retired else newest_state(storage)
    items = still_unnamed(made.items, state)
    done = 0
    with (
        screen.counting("deleting", sum(len(item.keys) for item in items)) as progress,
        ThreadPoolExecutor(THREADS, "holdfast-delete") as pool,
    ):

        def delete(key: str) -> None:
            storage.delete([key])
            progress.advance(progress.task_ids[0])

        try:
            for item in items:
                for first in item.keys[:1]:  # the manifest: what has none cannot be taken for a checkpoint
                    delete(first)
                list(pool.map(delete, item.keys[1:]))
                done += 1
        except StorageError as error:
            raise CliError(
                f"{done} of {len(items)} were deleted, then: {error}",
                code=explain(error).code,
                hint="the log does not name the rest any more; run it again with --older-than 0s while nothing trains",
            ) from error


def _drop(storage: Storage, seen: LogState, retired: Sequence[int]) -> LogState:
    commits = person(storage, seen)
    try:
        commits.prune(tuple(retired))
    except FencedError as error:
        raise CliError(f"nothing was deleted: the log has changed meanwhile ({error})", hint=_ORPHANS_HINT) from error
    return commits.state


def to_object(prefix: Prefix, made: Plan, *, dry_run: bool) -> dict[str, Any]:
    """What --json prints."""
    return {
        "uri": prefix.uri,
        "dryRun": dry_run,
        "size": made.size,
        "deleted": [
            {"name": i.name, "step": i.step, "size": i.size, "committed": i.commit is not None, "why": i.why}
            for i in made.items
        ],
        "kept": [{"name": kept.name, "why": kept.why} for kept in made.kept],
    }
