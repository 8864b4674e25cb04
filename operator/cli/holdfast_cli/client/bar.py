"""A bar that shows how far a job is, on a terminal or in a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs import view
from holdfast_cli.jobs.state_line import state_line
from holdfast_cli.terminal.console import error_console


@contextmanager
def progress_bar(wanted: bool | None) -> Iterator[Callable[[TrainingJob], None]]:
    """Show a bar on standard error inside the block; it is given the job as it is now. None: if it can be drawn."""
    err = error_console()
    if not (_is_drawn(err) if wanted is None else wanted):
        yield lambda _: None
        return
    state = _State(Column(no_wrap=True, overflow="ellipsis"))
    with Progress(BarColumn(view.BAR // 2), state, console=err, refresh_per_second=4) as bar:
        task = bar.add_task("", total=None, job=None)

        def show(job: TrainingJob) -> None:
            share = view.fraction(job)
            # In a notebook the end draws nothing more: the last state is drawn here.
            bar.update(task, job=job, total=None if share is None else 1.0, completed=share, refresh=True)

        yield show


class _State(ProgressColumn):
    """The state of the job, with the time that is left by now."""

    def render(self, task: Task) -> Text:
        job = task.fields["job"]
        return state_line(job, datetime.now(UTC)) if job else Text()


def _is_drawn(console: Console) -> bool:
    """True on a terminal, and in a notebook that can replace what a cell shows."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal
