"""`holdfast rollback`."""

import sys
from typing import Annotated, Any

import typer

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.branch.pin_command import committed
from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.pick import select
from holdfast_cli.checkpoints.survey import Prefix, check_owner, log_for_person, survey
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.address import OfJob
from holdfast_cli.terminal import formats
from holdfast_train.commitlog import rules
from holdfast_train.commitlog.records import HEALTHY_STEPS, Commit, Fence, LogState
from holdfast_train.errors import AlreadyCompleteError, FencedError

HEALTHY = "healthy"
_WHY = "a person asked for it"


@on_storage
def rollback(
    at: Opened,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="STEP",
            help=f"A step, or a checkpoint's name or the start of it, or {HEALTHY}: the newest checkpoint after which "
            f"{HEALTHY_STEPS} steps had finite losses.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be left behind.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Roll back without asking.")] = False,
) -> None:
    """Make a job continue from an earlier checkpoint. The checkpoints after it are left behind.

    No attempt resumes from what is left behind, and retention deletes it once enough newer checkpoints exist: pin a
    checkpoint to keep it. An attempt that trains now commits nothing more. It ends at its next save, and the next
    attempt continues from the earlier checkpoint; holdfast move ends it at once.

    \b
    Examples:
      holdfast rollback vit-faces --to healthy -n vision
      holdfast rollback vit-faces --to 48000 --yes
    """
    prefix = survey(at.storage)
    check_owner(at.found, prefix.state)
    target = _target(prefix, to)
    try:
        rules.check_may_roll_back(prefix.state, target.seq)
    except (FencedError, AlreadyCompleteError) as error:
        raise _refused(error) from error
    left = tuple(c for c in prefix.state.commits if c.seq > target.seq)
    fence = rules.possible_writer(prefix.state)
    if not at.is_for_programs:
        _show(target, left, fence)
    if not dry_run:
        _ask(target, yes=yes, can_ask=not at.is_for_programs)
        _carry_out(at, prefix.state, target)
    done = "would continue" if dry_run else "continues"
    text = f"{_next(at.found.job)} {done} from {screen.which(target.name)}" + (" (--dry-run)" if dry_run else "")
    at.answer(to_object(prefix, target, left, fence, dry_run=dry_run), lambda out: out.print(text, markup=False))


def _next(job: OfJob | None) -> str:
    """What goes on from the target. A job that has ended has no attempt to come."""
    if job is None or job.phase is None or not job.phase.final:
        return "the next attempt"
    return f"{job.name} is {job.phase} and starts no attempt: a job that is created again under this name"


def _target(prefix: Prefix, to: str) -> Commit:
    """The commit for `healthy`, a step, or a name or its start. CliError if there is none."""
    if to != HEALTHY:
        return committed(prefix, select(prefix, to))
    found = next((c for c in reversed(prefix.state.commits) if c.healthy and not c.corrupt), None)
    if found is None:
        raise CliError(
            f"no checkpoint below {prefix.uri} is known to be healthy: {HEALTHY_STEPS} steps with finite losses must "
            f"follow one before the log calls it so",
            code=ExitCode.NOT_FOUND,
            hint="give --to a step; holdfast checkpoints list shows them",
        )
    return found


def _show(target: Commit, left: tuple[Commit, ...], fence: Fence | None) -> None:
    if left:
        steps = ", ".join(formats.count(c.step) for c in left if c.step)
        of = f", of step {steps}" if steps else ""
        typer.echo(f"left behind: {len(left)} {'checkpoint' if len(left) == 1 else 'checkpoints'}{of}")
    else:
        typer.echo(f"nothing is left behind: no checkpoint is newer than {screen.which(target.name)}")
    if fence is not None:
        typer.echo(
            f"attempt {fence.attempt} may be training: it commits nothing after the rollback, and what it has trained "
            f"since its last checkpoint is lost"
        )


def _ask(target: Commit, *, yes: bool, can_ask: bool) -> None:
    """Ask the user. Raises CliError if there is no terminal; ends the command on no."""
    if yes:
        return
    if not (can_ask and sys.stdin.isatty()):
        raise CliError(
            "nothing was rolled back: there is no terminal to ask on", hint="give --yes, or --dry-run to look first"
        )
    typer.confirm(f"Continue from {screen.which(target.name)}?", abort=True)


def _carry_out(at: Opened, seen: LogState, target: Commit) -> None:
    try:
        log_for_person(at.storage, seen).roll_back(target.seq, _WHY, by_person=True)
    except (FencedError, AlreadyCompleteError) as error:
        raise _refused(error) from error


def _refused(error: FencedError | AlreadyCompleteError) -> CliError:
    return CliError(f"nothing was rolled back: {error}", hint="holdfast checkpoints list shows what may be chosen")


def to_object(
    prefix: Prefix, target: Commit, left: tuple[Commit, ...], fence: Fence | None, *, dry_run: bool
) -> dict[str, Any]:
    """What -o json prints."""
    return {
        "uri": prefix.uri,
        "dryRun": dry_run,
        "to": {"name": str(target.name), "step": target.step or None},
        "left": [{"name": str(c.name), "step": c.step or None} for c in left],
        "fencedAttempt": None if fence is None else fence.attempt,
    }
