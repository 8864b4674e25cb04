"""What is known of a tier: in a job's status from its own attempts, in a profile's status from those of all jobs."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from holdfast.api.model import Model
from holdfast.api.rules import KeyedBy
from holdfast.api.scalars import Clip, Count, Duration, Time

MAX_TIERS = 16
MAX_MEASURED = 5
MAX_SHAPES = 8
MAX_REFUSALS = 8
MAX_FAULTY = 32
MAX_FAULTS = 4

Observation = Literal["Free", "Billed"]


class Seen(StrEnum):
    """What was last observed of a tier."""

    UP = "Up"  # it gave a node, or one of its nodes is in use
    TOOK_BACK = "TookBack"  # it took a node back
    REFUSED = "Refused"  # it gave no node in time
    UNFIT = "Unfit"  # a pod got no node, for a reason of its own: that says nothing about the tier


class Measured(Model):
    """Measured durations of one kind."""

    recent: Annotated[tuple[Duration, ...], Field(max_length=MAX_MEASURED)] = ()
    """The last measured durations, oldest first. Their median is the typical duration."""
    worst: Duration = timedelta(0)
    """The longest of all measured durations."""


class ShapeKnowledge(Model):
    """What is known of one tier by pods that ask for a certain number of accelerators."""

    accelerators: Count = 0
    """Number of accelerators that the pods asked for."""
    nodes: Count = 1
    """Most nodes that one training had at once while the state was Up. A larger training learns nothing from it."""
    state: Seen
    """What was last observed, as in the tier's field state."""
    since: Time
    """Since when that is so, as in the tier's field since."""
    seen_at: Time
    """When that was last observed."""


class NamespaceRefusal(Model):
    """Jobs of one namespace get no node of a tier, and no other namespace confirms it."""

    namespace: Annotated[str, Clip(16)]
    """Start of the SHA-256 sum of the namespace's name, in hexadecimal. Only jobs of this namespace use the entry."""
    accelerators: Count = 0
    """Number of accelerators that the pods asked for."""
    since: Time
    """Since when they get no node."""
    seen_at: Time
    """When that was last observed."""


class TierKnowledge(Model):
    """What is known of one tier."""

    tier: Annotated[str, Clip(253)]
    """Name of the tier."""
    state: Seen | None = None
    """What was last observed. Up: the tier gave a node. TookBack: it took a node back. Refused: it lacks capacity, and
    gave no node in time. Unfit: the job's pod got no node for a reason of the pod itself, such as a volume, or more
    memory than any node of the tier has; other jobs do not learn of that."""
    since: Time | None = None
    """Since when the tier is up, or out (TookBack, Refused or Unfit)."""
    seen_at: Time | None = None
    """When the state was last observed."""
    accelerators: Count | None = None
    """Number of accelerators that the job's pods asked for then. Not set in a profile."""
    observation: Observation | None = None
    """Billed if a node was added after a pod needed it. Free if every node was there before."""
    acquire: Measured | None = None
    """Durations from the creation of a pod until it had a node."""
    start: Measured | None = None
    """Durations from getting a node to the first step: image, program, checkpoint."""
    interruptions: Count = 0
    """Number of nodes that the tier took back."""
    node_time: Duration = timedelta(0)
    """Total node time on the tier. In a job: of the attempts that have ended. In a profile: of all attempts."""
    pace: Duration | None = None
    """Duration of one step in the newest attempt with enough steps. Not set in a profile."""
    fruitless: Count | None = None
    """Number of attempts in a row that lost a node of the tier before they made progress. Not set in a profile."""
    rests_until: Time | None = None
    """Until when the tier rests because of the field fruitless: if tiers are tried in their order, an attempt that
    follows an interruption or a failure begins on another one. Not set in a profile."""
    shapes: Annotated[tuple[ShapeKnowledge, ...], Field(max_length=MAX_SHAPES), KeyedBy("accelerators")] = ()
    """The same state for each number of accelerators that pods asked for. Only set in a profile."""
    refusals: Annotated[tuple[NamespaceRefusal, ...], Field(max_length=MAX_REFUSALS)] = ()
    """Refusals that only jobs of the same namespace use. Only set in a profile."""


class NodeFault(Model):
    """An attempt that ended for a reason that its node may have caused."""

    reason: Annotated[str, Clip(64)]
    """Reason of the attempt's end."""
    at: Time
    """When it ended."""
    namespace: Annotated[str, Clip(16)]
    """Start of the SHA-256 sum of the namespace's name, in hexadecimal."""
    job: Annotated[str, Clip(16)]
    """Start of the SHA-256 sum of the job's UID, in hexadecimal."""
    attempt: Count
    """Number of the attempt."""


class NodeFaults(Model):
    """A node on which attempts ended for a reason that the node may have caused, in the last 24 hours."""

    node: Annotated[str, Clip(253)]
    """Name of the node."""
    faults: Annotated[tuple[NodeFault, ...], Field(max_length=MAX_FAULTS)] = ()
    """Some of these attempts, oldest first: those whose end the cluster itself observed, then the newest of each
    namespace."""
