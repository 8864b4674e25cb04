"""A bar for bytes that go somewhere, on a terminal only. It leaves nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn


@contextmanager
def bytes_bar(err: Console, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show `what` happens to `total` bytes. The function that it gives is told of each number of bytes that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=max(1, total))
        yield lambda size: bar.advance(task, size)
