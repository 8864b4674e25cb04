"""How a long command tells people what it is doing."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Update = Callable[[str], None]


class Report(Protocol):
    """Receives what a command does, step by step."""

    def step(self, what: str) -> AbstractContextManager[Update]:
        """A step that takes time. The value is a function that says how far it is."""

    def note(self, text: str) -> None:
        """One line of information."""


class Silent:
    """Reports nothing."""

    @contextmanager
    def step(self, what: str) -> Iterator[Update]:
        """Do nothing around the step."""
        yield lambda _: None

    def note(self, text: str) -> None:
        """Drop the line."""


class ConsoleReport:
    """Reports on a console: a spinner with elapsed time on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[Update]:
        """Show the step while it runs, and one line with its duration at its end."""
        started = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(f"{what} ...", highlight=False, markup=False)
            yield lambda _: None
            self._console.print(f"{what}: done in {_seconds(started)}", highlight=False, markup=False)
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(what, total=None, detail="")
            yield lambda detail: progress.update(task, detail=detail)
        self._console.print(f"[green]✓[/] {escape(what)} [dim]{_seconds(started)}[/]", highlight=False)

    def note(self, text: str) -> None:
        """Print the line."""
        self._console.print(text, highlight=False, markup=False)


def _seconds(started: float) -> str:
    elapsed = time.monotonic() - started
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    return f"{int(elapsed // 60)} min {int(elapsed % 60)} s"
