"""What is known of a tier, as status keeps it: in a job from its own attempts, in a profile from those of all jobs."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from holdfast.api.model import Model
from holdfast.api.scalars import Clip, Count, Duration, Time

MAX_TIERS = 16
MAX_MEASURED = 5

Observation = Literal["Free", "Billed"]


class Seen(StrEnum):
    """What was last seen of a tier."""

    UP = "Up"  # it gave a node, or one of its nodes is in use
    LOST = "Lost"  # it took a node back
    REFUSED = "Refused"  # it gave no node in time


class Measured(Model):
    """How long something took, each time that it was done."""

    recent: Annotated[tuple[Duration, ...], Field(max_length=MAX_MEASURED)] = ()
    """The last few times, oldest first; their median is what is typical."""
    worst: Duration = timedelta(0)
    """The longest of all times."""


class TierKnowledge(Model):
    """What is known of one tier."""

    tier: Annotated[str, Clip(253)]
    """Name of the tier."""
    state: Seen | None = None
    """What was last seen of it. Up: a node of it was had. Lost: it took a node back. Refused: it gave none in time."""
    since: Time | None = None
    """Since when it has been so: up, or out (Lost or Refused)."""
    seen_at: Time | None = None
    """When that was last seen."""
    observation: Observation | None = None
    """Billed once a node came that was not there when a pod asked for it; Free if every node was."""
    acquire: Measured | None = None
    """From asking for a node until there was one."""
    start: Measured | None = None
    """From having a node to the first step: image, program, checkpoint."""
    losses: Count = 0
    """How often it took a node back."""
    had: Duration = timedelta(0)
    """How long its nodes were had: of a job by attempts that are over, of a profile by all attempts."""
    pace: Duration | None = None
    """How long one step took, in the newest attempt that took enough of them. Not known of a profile."""
