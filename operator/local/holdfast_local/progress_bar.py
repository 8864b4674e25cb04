"""How a long command tells people what it is doing."""

import threading
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


class LineReport:
    """Reports by lines: `say` gets one at the start and the end of each step, and for a long one in between.

    `every`: seconds from one line about a step that takes long to the next.
    """

    def __init__(self, say: Callable[[str], None], every: float = 30.0) -> None:
        self.note = say
        self._every = every

    @contextmanager
    def step(self, what: str) -> Iterator[Update]:
        """Say that the step begins, how far it is, and how long it took."""
        started = time.monotonic()
        self.note(f"{what} ...")
        with self._signs_of_life(what, started) as update:
            yield update
        self.note(f"{what}: done in {_seconds(started)}")

    @contextmanager
    def _signs_of_life(self, what: str, started: float) -> Iterator[Update]:
        """Print how far the step is, now and then, until the block ends."""
        ended, newest = threading.Event(), "still at work"

        def update(detail: str) -> None:
            nonlocal newest
            newest = detail

        def tell() -> None:
            while not ended.wait(self._every):
                self.note(f"{what}: {newest}, {_seconds(started)}")

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield update
        finally:
            ended.set()
            teller.join()


class ConsoleReport:
    """Reports on a console: a spinner with elapsed time on a terminal, plain lines elsewhere.

    `every`: as of LineReport.
    """

    def __init__(self, console: Console, every: float = 30.0) -> None:
        self._console = console
        self._lines = LineReport(self.note, every)
        self._lock = threading.Lock()
        self._steps = 0
        self._spinners = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
            console=console,
            transient=True,
        )

    @contextmanager
    def step(self, what: str) -> Iterator[Update]:
        """Show the step while it runs, and one line with its duration at its end."""
        if not self._console.is_terminal:
            with self._lines.step(what) as update:
                yield update
            return
        started = time.monotonic()
        with self._shown() as progress:
            task = progress.add_task(what, total=None, detail="")
            try:
                yield lambda detail: progress.update(task, detail=detail)
            finally:
                progress.remove_task(task)
        self._console.print(f"[green]✓[/] {escape(what)} [dim]{_seconds(started)}[/]", highlight=False)

    @contextmanager
    def _shown(self) -> Iterator[Progress]:
        """The spinners, shown while a step runs: a terminal has one place for them, and steps may run side by side."""
        with self._lock:
            if not self._steps:
                self._spinners.start()
            self._steps += 1
        try:
            yield self._spinners
        finally:
            with self._lock:
                self._steps -= 1
                if not self._steps:
                    self._spinners.stop()

    def note(self, text: str) -> None:
        """Print the line."""
        self._console.print(text, highlight=False, markup=False)


def _seconds(started: float) -> str:
    elapsed = time.monotonic() - started
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    return f"{int(elapsed // 60)} min {int(elapsed % 60)} s"
