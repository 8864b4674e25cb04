"""Orders for the program of a pod: the answer to a report, and to a call that waits for an order.

An order has a number, which grows. The pod tells the highest one that it knows, and is told those above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from . import document as kind
from .document import REQUIRED

VERSION = 1
DRAIN: Final = "drain"  # save, and leave
CHECKPOINT: Final = "checkpoint"  # save, and go on
GO: Final = "go"  # begin, although the attempt before has not given up the checkpoints
LONGEST_EVERY: Final = 3600.0
Type = Literal["drain", "checkpoint", "go"]


@dataclass(frozen=True)
class Order:
    """One order. A pod does nothing for one of a type that it does not know."""

    id: int = kind.whole(REQUIRED)
    """Its number."""
    type: str = kind.text(REQUIRED, most=64)
    """`drain`: save and leave; `checkpoint`: save; `go`: do not wait for the attempt before."""
    seconds_left: float = kind.seconds(0.0)
    """For a drain: until the pod must have left."""
    reason: str = kind.text("", least=0)
    """Why, for people."""


@dataclass(frozen=True)
class Orders:
    """What a pod is told."""

    version: int = kind.version(VERSION)
    """Version of this document."""
    orders: tuple[Order, ...] = kind.parts(Order, most=64)
    """The open orders with a higher number than those that the pod knows, the oldest first."""
    report_every_seconds: float | None = kind.seconds(above=0)
    """How often the pod is to report from now on; at most an hour."""

    def interval(self, before: float) -> float:
        """Seconds between two reports from now on, which were `before`."""
        return before if self.report_every_seconds is None else min(self.report_every_seconds, LONGEST_EVERY)
