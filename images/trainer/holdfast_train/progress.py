"""`Progress`: what the training thread passes to the reporter."""

import time
from typing import Any

__all__ = ["Progress"]


class Progress:
    """The content of the next report. The training thread sets plain attributes; the reporter's threads read them."""

    def __init__(self) -> None:
        self.state = "starting"
        self.step: int | None = None
        self.steps: int | None = None
        self.first_step: tuple[int, float] | None = None  # that this process trained, and when (time.monotonic)
        self.loss: Any = None
        self.samples: Any = 0.0
        self.fenced = False
        self.resumed_from: dict[str, Any] | None = None
        self.checkpoint: dict[str, Any] | None = None
        self.save_error: str | None = None  # one line; None after a save has succeeded again
        self.folder = False  # True in the writer of checkpoint.folder, which knows checkpoints and no steps
        self.memory_warning: str | None = None  # one line; None if a save fits into the container's memory

    def resume(self, step: int, uri: str, note: str) -> None:
        """Training goes on from the checkpoint of `step` at `uri`."""
        # In this order: a report in between must not show the restored step as one of our own.
        self.resumed_from = {"step": step, "uri": uri, "note": note}
        self.step = step

    def count_step(self, step: int) -> bool:
        """`step` steps are done. True if it is the first one of this process."""
        is_first = self.first_step is None
        if is_first:
            self.first_step = (step, time.monotonic())
        self.step = step
        return is_first
