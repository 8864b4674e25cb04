"""What people read of a rehearsal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast_cli.rehearse.costs import Cost, bytes_of_saves
from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.outside import NotSaved
from holdfast_cli.rehearse.ran import Ran, Tell
from holdfast_cli.rehearse.rehearsal import Rehearsed
from holdfast_train.folder.words import mib

MOST_PATHS: Final = 10


@contextmanager
def live(console: Console) -> Iterator[Tell]:
    """Shows what the rehearsal does; one line for each start where there is no terminal."""
    if not console.is_terminal:
        said = set[str]()

        def tell(text: str) -> None:
            start = text.partition(",")[0]
            if start not in said:
                said.add(start)
                console.print(Text(start))

        yield tell
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(text))


def show(console: Console, done: Rehearsed) -> None:
    """The verdict, what the interruptions and saves have cost, and what is not saved."""
    console.print(_costs(done))
    for line in done.verdict.lines():
        console.print(Text(line))
    for kind, why in done.interrupted.not_tried.items():
        console.print(Text(f"not tried: {kind}: {why}", style="yellow"))
    for start in done.interrupted.left.starts:
        if start.ended_by is Interruption.CRASH_IN_SAVE:
            cut = f"was cut: {start.torn} is not whole" if start.torn else "was complete before the program was killed"
            console.print(Text(f"crash-in-save: the save {cut}"))
        if start.note:
            console.print(Text(f"{start.ended_by}: {start.note}"))
    for note in dict.fromkeys((*done.undisturbed.notes, *done.interrupted.notes)):
        console.print(Text(f"note: {note}"))
    for line in (*_saves(done.undisturbed), *_not_saved(done.undisturbed.not_saved)):
        console.print(Text(line))


def _costs(done: Rehearsed) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 3, 0, 0))
    for name in ("INTERRUPTION", "AT STEP", "WENT ON FROM", "STEPS AGAIN", "TO ITS FIRST STEP"):
        table.add_column(name)
    for cost in done.costs:
        table.add_row(*map(Text, _row(cost)))
    return table


def _row(cost: Cost) -> tuple[str, ...]:
    seconds = "-" if cost.seconds is None else f"{cost.seconds:.1f} s"
    return cost.kind, *("-" if one is None else str(one) for one in (cost.at, cost.went_on, cost.lost)), seconds


def _saves(ran: Ran) -> Iterator[str]:
    if moved := bytes_of_saves(ran.made):
        yield f"saves: {len(moved)}, each moves {mib(sum(moved) // len(moved))} on average"


def _not_saved(found: NotSaved) -> Iterator[str]:
    if found.excluded:
        shown = ", ".join(f"{path} ({why})" for path, why in list(found.excluded.items())[:MOST_PATHS])
        yield f"not saved, in the folder: {shown}{_more(len(found.excluded))}"
    if found.outside:
        yield f"not saved, outside of the folder: {', '.join(found.outside[:MOST_PATHS])}{_more(len(found.outside))}"
    if found.unknown:
        yield f"files outside of the folder were not looked at: {found.unknown}"


def _more(count: int) -> str:
    return f" and {count - MOST_PATHS} more" if count > MOST_PATHS else ""
