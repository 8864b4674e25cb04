"""Lines of logs for a program."""

from collections.abc import Callable
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast_cli.logs.entries import Entry

Say = Callable[[str], object]
SILENT: Final[Say] = lambda _: None  # noqa: E731 - a default


class LineSink:
    """Gives the text of each line to `put`, and words about the log to `say`."""

    def __init__(self, ranks: tuple[int, ...], put: Callable[[str], None], say: Say) -> None:
        self.job: TrainingJob | None = None
        self.places: dict[int, PodView] = {}
        self._prefixed = len(ranks) > 1
        self._put = put
        self._say = say

    def show(self, entry: Entry) -> None:
        """Give one line. Those of several ranks begin with their rank."""
        prefix = f"rank {entry.rank} | " if self._prefixed else ""
        self._put(prefix + entry.text.decode(errors="replace"))

    def flush(self) -> None:
        """Lines are given at once."""

    def say(self, text: str) -> None:
        """Give words about the log."""
        self._say(text)
