"""What the training thread tells the reporter."""

from typing import Any

__all__ = ["Progress"]


class Progress:
    """What the next report says. The training thread sets plain attributes, the reporter's thread reads them."""

    def __init__(self) -> None:
        self.state = "starting"
        self.step: int | None = None
        self.steps: int | None = None
        self.loss: Any = None
        self.samples = 0.0
        self.fenced = False
        self.resumed_from: dict[str, Any] | None = None
        self.checkpoint: dict[str, Any] | None = None
        self.save_error: str | None = None  # one line; None once a save has succeeded again
