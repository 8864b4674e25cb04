"""Attempts as a job's status keeps them: those that are not over, and the records of those that are."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from holdfast.api.lists import KeyedBy
from holdfast.api.model import Model
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import Clip, Count, Duration, Flag, Money, Step, Time

Reason = Annotated[str, Clip(128)]
Message = Annotated[str, Clip(4096)]
ShortMessage = Annotated[str, Clip(2560)]  # history must stay small; a failure's last lines fit
Name = Annotated[str, Clip(253)]
Number = Annotated[str, Clip(32)]  # a decimal string

MAX_PODS = 64
MAX_AVOIDED = 64


class AttemptState(StrEnum):
    """Where an attempt stands."""

    INTENDED = "Intended"  # number raised, its pod must not exist yet (the attempt before has to end first)
    ACQUIRING = "Acquiring"  # its pod should exist and waits for a node
    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"


class EndKind(StrEnum):
    """Why an attempt ended, in the four ways that matter."""

    COMPLETED = "Completed"
    LOSS = "Loss"
    FAILURE = "Failure"
    MISCONFIGURED = "Misconfigured"
    STOPPED = "Stopped"  # by us on request: suspend, move, edit, acquire timeout, delete; counts as nothing


class Drain(Model):
    """A pod was told to save and leave."""

    order: Step
    """Id of the order, unique within the job."""
    reason: Reason
    """Why, in one CamelCase word."""
    message: Message = ""
    """Why, for people."""
    at: Time
    """When it was told."""
    deadline: Time
    """When the node or the grace ends."""
    kind: EndKind = EndKind.LOSS
    """What the end will count as."""
    acknowledged_at: Time | None = None
    """When the pod said that it heard."""
    deleted_at: Time | None = None
    """When the pod was deleted: nobody answered, or the deadline passed."""
    kill_at: Time | None = None
    """When its grace after that is over."""


class Departure(Model):
    """Its node will go: an attempt is to save and leave once its successor waits at the fence, or time is up."""

    reason: Reason
    """Why, in one CamelCase word."""
    message: Message = ""
    """Why, for people."""
    at: Time
    """When it was decided."""
    deadline: Time
    """When its node goes."""
    leave_at: Time
    """When it leaves at the latest, so that its last save is done in time."""


class PodRecord(Model):
    """One pod of an attempt, as last seen."""

    rank: Count = 0
    """Rank of the pod in its gang."""
    uid: Name | None = None
    """UID of the pod."""
    node: Name | None = None
    """Name of its node."""
    node_uid: Name | None = None
    """UID of its node: a node that comes back under its name is another one."""


class Attempt(Model):
    """One attempt that is not over."""

    number: Count
    """Its number; the storage fence is this number."""
    state: AttemptState
    """Where it stands."""
    tier: ProfileTier
    """The tier as it was when the attempt was raised: edits of the grid do not touch a running attempt."""
    raised_at: Time
    """When it was decided, before any pod."""
    pods: Annotated[tuple[PodRecord, ...], Field(max_length=MAX_PODS), KeyedBy("rank")] = ()
    """Its pods."""
    created_at: Time | None = None
    """When its pod was there."""
    scheduled_at: Time | None = None
    """When its pod had a node."""
    charged: Money = Decimal(0)
    """Money for its node up to `pricedAt`, at the prices of that time."""
    priced_at: Time | None = None
    """Since when the price of its tier holds, if that has changed while it had its node."""
    started_at: Time | None = None
    """When its trainer container ran."""
    progress_at: Time | None = None
    """When it took its first step of its own."""
    fenced: Flag = False
    """The library holds the storage fence: a later attempt makes this one harmless."""
    first_step: Step | None = None
    """Its first step of its own."""
    last_step: Step | None = None
    """Its newest step."""
    last_step_at: Time | None = None
    """When it took that step."""
    resumed_step: Step | None = None
    """The step that it resumed from; none if it began anew."""
    departure: Departure | None = None
    """Set while it trains on although its node will go."""
    drain: Drain | None = None
    """Set once it was told to leave."""
    predecessor: Count | None = None
    """The attempt that trained when its pod was made: the pod waits for that one's handover, or for an order."""
    go: Step | None = None
    """Id of the order that lets it pass the fence, once that was given."""
    vain: Count = 0
    """How many of its successors were given up for a reason that may last; one that was lost does not count."""
    return_after: Time | None = None
    """Going back to a better tier is not tried before this time."""
    refusals: Count = 0
    """How often the API server refused its pod (quota, admission)."""
    retry_at: Time | None = None
    """Its pod is not created before this time."""
    replaced: Count = 0
    """How often somebody deleted its pod, or that of the attempt it stands in for, before it had a node."""
    acquire_deadline: Time | None = None
    """When the next tier is tried."""
    avoid_nodes: Annotated[tuple[Name, ...], Field(max_length=MAX_AVOIDED)] = ()
    """Nodes that its pod must not go to."""


class Recovery(Model):
    """Where the time between a last step and the next attempt's first one went, and what was then trained again."""

    notice: Duration = timedelta(0)
    """From the last step to the end of its pod: saving and leaving, or nobody noticing."""
    acquire: Duration = timedelta(0)
    """From there until the next pod had a node."""
    start: Duration = timedelta(0)
    """Until its trainer ran: image, storage check."""
    restore: Duration = timedelta(0)
    """Until its first step: loading the program and the checkpoint."""
    replay: Duration = timedelta(0)
    """Training steps again that had been lost, at the pace at which they were trained first."""


class AttemptRecord(Model):
    """One attempt that is over."""

    number: Count
    """Its number."""
    tier: Name
    """Name of its tier."""
    node: Name | None = None
    """Its node, if it had one."""
    kind: EndKind
    """Why it ended, in the ways that count."""
    reason: Reason
    """Why it ended, in one CamelCase word."""
    message: ShortMessage = ""
    """Why it ended, for people; the last lines of a program that failed."""
    raised_at: Time
    """When it was decided."""
    scheduled_at: Time | None = None
    """When its pod had a node."""
    started_at: Time | None = None
    """When its trainer container ran."""
    ended_at: Time
    """When it ended."""
    pod_uid: Name | None = None
    """UID of its pod, if nobody saw it end: another pod under its name is not over."""
    estimated: Flag = False
    """Nobody saw the end."""
    first_step: Step | None = None
    """Its first step of its own."""
    first_step_at: Time | None = None
    """When it took that step."""
    last_step: Step | None = None
    """Its last step."""
    last_step_at: Time | None = None
    """When it took that step."""
    resumed_step: Step | None = None
    """The step that it resumed from; none if it began anew."""
    steps: Step = 0
    """How many steps it took."""
    steps_lost: Step | None = None
    """How many of them the next attempt took again; set when that is known."""
    cost: Money | None = None
    """What its node cost, from the moment the pod had it; none if the tier has no price."""
    seconds_lost: Duration | None = None
    """From its last step to the next attempt's first; set when that is known."""
    recovery: Recovery | None = None
    """The same time, split by what was done in it."""
