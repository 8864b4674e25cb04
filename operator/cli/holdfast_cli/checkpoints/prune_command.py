"""`holdfast checkpoints prune`."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.damage import THREADS
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.pick import Selected
from holdfast_cli.checkpoints.prune_plan import Plan, broken_commits, plan, still_unnamed
from holdfast_cli.checkpoints.survey import Prefix, check_owner, log_for_person, newest_state, survey
from holdfast_cli.errors import CliError
from holdfast_cli.storage.address import Found, explain
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_cli.terminal.parsing import duration
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.records import LogState
from holdfast_train.errors import CheckpointCorruptError, FencedError, KeyMissingError, StorageError
from holdfast_train.exchange.progress_bar import format_size
from holdfast_train.storage.base import Storage

COLUMNS = (Column("STEP", right=True), Column("SIZE", right=True), Column("NAME", rank=1), Column("WHY", loose=True))
_ORPHANS_HINT = "without --keep-last and --keep-every, prune deletes only what the log does not name"


@on_storage
def prune(
    at: Opened,
    *,
    keep_last: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also drop committed checkpoints, except this many of the newest intact ones.",
            show_default=False,
        ),
    ] = None,
    keep_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --keep-last: also keep one checkpoint of each such period; 0s keeps none. Default: the job's.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="Delete what the log does not name only when it is this old.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete what interrupted saves left behind, and with --keep-last also old checkpoints.

    It is safe while a training runs: what the log names and what the attempt may be writing stays. Committed
    checkpoints are dropped only while no attempt may be training, by a record in the log. The newest intact one
    always stays, and only those whose manifest and sizes are right count as kept. Training itself applies
    checkpoint.keep. A job that starts from a checkpoint here by its address is not seen.

    \b
    Examples:
      holdfast checkpoints prune vit-faces -n vision --dry-run
      holdfast checkpoints prune s3://runs/vision/vit-faces --keep-last 1 --yes
    """
    old, every = (
        duration("--older-than", older_than),
        None if keep_every is None else duration("--keep-every", keep_every),
    )
    keep = retention(at.found, keep_last, every)
    prefix = survey(at.storage)
    check_owner(at.found, prefix.state)
    broken = broken_commits(prefix, _unreadable(at.storage, prefix)) if keep else {}
    made = plan(prefix, keep, broken, old, datetime.now(UTC))
    if made.refused:
        raise CliError(
            f"committed checkpoints of {prefix.uri} are not dropped now: attempt {made.refused.attempt} may be "
            f"training. It has the newest fence, and has neither handed over nor completed",
            hint=f"suspend the job, or wait until it is complete; {_ORPHANS_HINT}",
        )
    if not at.is_for_programs:
        show(console(), made)
    if made.items and not dry_run:
        _ask(made, yes=yes, can_ask=not at.is_for_programs)
        carry_out(at.storage, prefix.state, made)
    at.answer(to_object(prefix, made, dry_run=dry_run), lambda out: _print_total(out, made, dry_run=dry_run))


def _print_total(out: Console, made: Plan, *, dry_run: bool) -> None:
    if made.items:
        done = "would be deleted (--dry-run)" if dry_run else "deleted"
        out.print(f"{formats.count(len(made.items))} {done}, {format_size(made.size)}", markup=False)


def retention(found: Found, last: int | None, every: timedelta | None) -> Keep | None:
    """The retention that the options ask for, completed from the job's; None if no commit is to be dropped."""
    if last is None and every is None:
        return None
    own = found.keep
    if last is None and own is None:
        raise typer.BadParameter("give --keep-last too: without a job it has no default", param_hint="--keep-every")
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
    """Commits whose manifests are missing or not the committed ones, and why. StorageError."""
    found = {}
    for commit in prefix.state.every:
        try:
            read_manifest(storage, Selected(commit.name, commit))
        except (CheckpointCorruptError, KeyMissingError) as error:
            found[commit.seq] = str(error)
    return found


def show(out: Console, made: Plan) -> None:
    """Print what is deleted, and what is not named by the log but stays."""
    if made.items:
        rows = [
            [Text(screen.step_of(i.name)), Text(format_size(i.size)), Text(str(i.name)), Text(i.why)]
            for i in made.items
        ]
        out.print(Fitting(COLUMNS, rows))
    else:
        out.print("nothing to delete")
    for kept in made.kept:
        out.print(Text(f"stays: {kept.name}: {kept.why}", style="dim"), soft_wrap=True)


def _ask(made: Plan, *, yes: bool, can_ask: bool) -> None:
    """Ask the user. Raises CliError if there is no terminal; ends the command on no."""
    if yes:
        return
    if not (can_ask and sys.stdin.isatty()):
        raise CliError(
            "nothing was deleted: there is no terminal to ask on",
            hint="give --yes, or --dry-run to look first",
        )
    typer.confirm(f"Delete {len(made.items)} ({format_size(made.size)})?", abort=True)


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
                for first in item.keys[:1]:  # the manifest: without it, objects are not a checkpoint
                    delete(first)
                list(pool.map(delete, item.keys[1:]))
                done += 1
        except StorageError as error:
            raise CliError(
                f"{done} of {len(items)} were deleted, then: {error}",
                code=explain(error).exit_code,
                hint="the log no longer names the rest; run it again with --older-than 0s while nothing trains",
            ) from error


def _drop(storage: Storage, seen: LogState, retired: Sequence[int]) -> LogState:
    commits = log_for_person(storage, seen)
    try:
        commits.prune(tuple(retired))
    except FencedError as error:
        raise CliError(f"nothing was deleted: the log has changed ({error})", hint=_ORPHANS_HINT) from error
    return commits.state


def to_object(prefix: Prefix, made: Plan, *, dry_run: bool) -> dict[str, Any]:
    """What -o json prints."""
    return {
        "uri": prefix.uri,
        "dryRun": dry_run,
        "size": made.size,
        "deleted": [
            {
                "name": str(i.name),
                "step": i.name.step or None,
                "size": i.size,
                "committed": i.commit is not None,
                "why": i.why,
            }
            for i in made.items
        ],
        "kept": [{"name": str(kept.name), "why": kept.why} for kept in made.kept],
    }
