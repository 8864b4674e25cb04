"""Where the lines of logs go: to a screen, or to a program that asked for them."""

from typing import Protocol

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast_cli.logs.entries import Entry


class Sink(Protocol):
    """Takes entries in the order in which they come, and words about them.

    `job`: the job as it is now. `places`: a pod that each attempt has created.
    """

    job: TrainingJob | None
    places: dict[int, PodView]

    def show(self, entry: Entry) -> None:
        """Take one line."""

    def flush(self) -> None:
        """Let what was taken be seen. Also called a few times a second while nothing comes: `job` may have changed."""

    def say(self, text: str) -> None:
        """Take words about the log."""
