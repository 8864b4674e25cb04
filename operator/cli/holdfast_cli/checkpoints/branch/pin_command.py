"""`holdfast checkpoints pin` and `unpin`."""

import typer

from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.checkpoints.options import Chosen
from holdfast_cli.checkpoints.pick import Selected, select
from holdfast_cli.checkpoints.survey import Prefix, check_owner, log_for_person, survey
from holdfast_cli.errors import CliError
from holdfast_train.commitlog.records import Commit
from holdfast_train.errors import FencedError


@on_storage
def pin(at: Opened, checkpoint: Chosen) -> None:
    """Keep a checkpoint until it is unpinned: no retention and no prune drops it.

    It is safe while a training runs.

    \b
    Examples:
      holdfast checkpoints pin vit-faces 48000 -n vision
    """
    _mark(at, checkpoint, is_pinned=True)


@on_storage
def unpin(at: Opened, checkpoint: Chosen) -> None:
    """Let retention decide about a checkpoint again. The next commit of the training may drop it.

    \b
    Examples:
      holdfast checkpoints unpin vit-faces 48000 -n vision
    """
    _mark(at, checkpoint, is_pinned=False)


def _mark(at: Opened, checkpoint: str, *, is_pinned: bool) -> None:
    prefix = survey(at.storage)
    check_owner(at.found, prefix.state)
    commit = committed(prefix, select(prefix, str(at.found.name or checkpoint)))
    word = "pinned" if is_pinned else "unpinned"
    is_changed = commit.pinned != is_pinned
    if is_changed:
        try:
            log = log_for_person(at.storage, prefix.state)
            log.pin(*(((commit.seq,), ()) if is_pinned else ((), (commit.seq,))))
        except FencedError as error:
            raise CliError(f"nothing was {word}: the log has changed ({error})", hint="try again") from error
    said = f"{word}: {commit.name}" if is_changed else f"it was {word} before: {commit.name}"
    data = {"uri": prefix.uri, "name": str(commit.name), "step": commit.step, "pinned": is_pinned}
    at.answer(data, lambda _: typer.echo(said))


def committed(prefix: Prefix, selected: Selected) -> Commit:
    """The record of `selected`. CliError if the log does not name it."""
    if selected.commit is None:
        raise CliError(
            f"{selected.name} below {prefix.uri} is not committed, or was set aside",
            hint="holdfast checkpoints list shows what is committed",
        )
    return selected.commit
