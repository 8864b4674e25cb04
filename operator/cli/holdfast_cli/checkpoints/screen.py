"""What several commands of `holdfast checkpoints` print."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from holdfast_cli.terminal import formats
from holdfast_cli.terminal.console import error_console
from holdfast_train.commitlog import records, rules
from holdfast_train.commitlog.records import LogState
from holdfast_train.format.names import CheckpointName


def notes(lines: Iterable[str]) -> None:
    """Print notes for people on standard error, so that the answer for programs stays whole."""
    for line in lines:
        error_console().print(Text.assemble(("note:  ", "yellow"), line))


def step_of(name: CheckpointName) -> str:
    """The step of a checkpoint for a cell; `formats.NOTHING` for one of a folder of which nothing says it."""
    return formats.count(name.step or None)


def which(name: CheckpointName) -> str:
    """A checkpoint in a sentence: `step 1,000`, or its name if no step is known."""
    return f"step {formats.count(name.step)}" if name.step else f"the checkpoint {name}"


def heading(uri: str, state: LogState) -> list[Text]:
    """The address, the owner, and the attempt that may commit."""
    lines = [Text(uri, style="bold")]
    if state.owner and state.owner.namespace == records.IMPORTED_NAMESPACE:
        done = rules.possible_writer(state) is None
        now = "imported; no job writes here" if done else "an import writes here, or was interrupted"
        return [*lines, Text.assemble(("now    ", "dim"), now)]
    if owner := state.owner:
        again = f", created again {len(state.former)} times" if len(state.former) > 1 else ""
        again = ", created again once" if len(state.former) == 1 else again
        lines.append(Text.assemble(("owner  ", "dim"), f"{owner.namespace}/{owner.job}{again}"))
    lines.append(Text.assemble(("now    ", "dim"), _now(state)))
    return lines


def _now(state: LogState) -> Text:
    if state.complete is not None:
        step = f" at step {state.complete:,}" if state.complete else ""  # 0: no checkpoint's name says a step
        return Text(f"complete{step}", style="green")
    if state.fence is None:
        return Text("no attempt of this job has raised its fence yet")
    last = state.rollbacks[-1] if state.rollbacks else None
    if last is not None and last.seq > state.fence.seq:
        to = f"step {last.step:,}" if last.step else "a checkpoint without a step"
        back = f"rolled back to {to}" if last.to else "rolled back to the start"
        return Text(f"{back}: {last.why}; no attempt may commit before the next fence")
    if rules.possible_writer(state) is None:
        return Text(f"attempt {state.fence.attempt} has handed over; no attempt may commit before the next fence")
    return Text(f"attempt {state.fence.attempt} has the newest fence and may be training", style="cyan")


def print_lines(out: Console, lines: list[Text]) -> None:
    """Print each on one line: an address must not be wrapped."""
    for line in lines:
        out.print(line, soft_wrap=True)


@contextmanager
def counting(what: str, total: int) -> Iterator[Progress]:
    """As `transfer`, but counts things."""
    err = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        progress.add_task(what, total=total)
        yield progress


@contextmanager
def transfer(what: str, total: int) -> Iterator[Progress]:
    """A bar of bytes with their speed on standard error, if that is a terminal. Its only task is 0."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    err = error_console()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        progress.add_task(what, total=total)
        yield progress
