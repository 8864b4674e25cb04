"""What is said of the files that are not sent, and of the upload."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.text import Text

from holdfast_cli.code.folder import LeftOut, Selection
from holdfast_cli.code.ignored import SECRET
from holdfast_train.exchange.progress_bar import format_size

NAMED: Final = 5  # of each reason


def say_selection(selection: Selection, err: Console) -> None:
    """Say what is sent, and what is not."""
    files = len(selection.entries)
    err.print(Text(f"{files:,} {'file' if files == 1 else 'files'}, {format_size(selection.size)}"))
    for line in left_out_lines(selection.left_out):
        err.print(Text(line), soft_wrap=True)


def left_out_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """A line for each reason, secrets first."""
    ordered = sorted(left_out, key=lambda one: (one.why != SECRET, one.why, one.path))
    for why, group in groupby(ordered, key=lambda one: one.why):
        paths = [one.path for one in group]
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        names = f"{', '.join(paths[:NAMED])}{more}"
        if why == SECRET:
            yield f"not sent, looks like a secret: {names}; take it in with a line !{paths[0]} in .holdfastignore"
        else:
            yield f"not sent ({why}): {names}"
