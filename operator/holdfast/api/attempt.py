"""Attempts in a job's status: the attempts that have not ended, and the records of those that have."""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from holdfast.api.model import Model
from holdfast.api.profile import ProfileTier
from holdfast.api.rules import KeyedBy
from holdfast.api.scalars import Clip, Count, Duration, Flag, Hours, Money, RankSet, Step, Time
from holdfast_protocol import reasons

Reason = Annotated[str, Clip(128)]
Message = Annotated[str, Clip(4096)]
ShortMessage = Annotated[str, Clip(2560)]  # history must stay small; the last lines of a failed program fit
Name = Annotated[str, Clip(253)]
Number = Annotated[str, Clip(32)]  # a decimal string

MAX_PODS = 64
MAX_AVOIDED = 64
MAX_FIELDS = 64
MAX_GROUPS = 256  # groups of members; beyond that the operator starts all members again


class AttemptState(StrEnum):
    """State of an attempt."""

    INTENDED = "Intended"  # it has a number; its pod must not exist before the previous attempt has ended
    ACQUIRING = "Acquiring"  # its pod should exist and waits for a node
    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"


class EndKind(StrEnum):
    """How the end of an attempt counts."""

    COMPLETED = "Completed"
    INTERRUPTION = "Interruption"
    FAILURE = "Failure"
    MISCONFIGURED = "Misconfigured"
    STOPPED = "Stopped"  # by Holdfast, on request or for another tier; counts as nothing


class EndReason(StrEnum):
    """Why an attempt ended, in the words that Holdfast itself chose.

    A launcher, a kubelet or a controller may give other reasons, and these are kept as they are.
    """

    # The job's spec, a request, or a budget stopped it.
    SUSPENDED = "Suspended"
    MISCONFIGURED = "Misconfigured"  # a person has to correct something, see status.misconfigured
    BUDGET_EXCEEDED = "BudgetExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"  # spec.activeDeadline
    MOVE_REQUESTED = "MoveRequested"
    SPEC_CHANGED = "SpecChanged"  # it ran another program, for another goal, or had another storage
    # The job went to another tier, or no node came in time.
    KEEPING_DEADLINE = "KeepingDeadline"
    RETURNING = "Returning"
    SLOW_RANK = "SlowRank"  # to another node of the tier: a rank was slower there than the others
    ACQUIRE_TIMEOUT = "AcquireTimeout"
    OTHER_TIER = "OtherTier"
    TIER_REMOVED = "TierRemoved"
    # It was a successor, and was given up.
    NOT_NEEDED = "NotNeeded"
    NOT_WORTH_IT = "NotWorthIt"
    OVERLAP_TOO_LONG = "OverlapTooLong"
    NO_ROOM = "NoRoom"
    POD_REFUSED = "PodRefused"
    # It was interrupted.
    POD_DELETED = "PodDeleted"
    POD_FAILED = "PodFailed"
    POD_GONE = "PodGone"
    NODE_GONE = "NodeGone"
    NODE_SILENT = "NodeSilent"
    START_TIMEOUT = "StartTimeout"
    NEVER_ENDED = "NeverEnded"  # long after its grace
    UNREACHABLE = "Unreachable"  # no report arrived after it was let pass the fence
    FENCED = reasons.FENCED  # a newer attempt owns the checkpoints
    KILLED = "Killed"  # from outside
    CONTAINER_LOST = "ContainerLost"  # its node restarted, or lost the container's shim
    CONNECTION_LOST = "ConnectionLost"  # between its nodes or to another server, and nothing else is known
    # Many attempts in a row were interrupted, or failed, without progress.
    TOO_MANY_FRUITLESS = "TooManyFruitlessAttempts"
    # Its program ended, or cannot run.
    EXITED = reasons.EXITED
    EXIT_CODE = "ExitCode"
    STALLED = reasons.STALLED  # it took no step for spec.failure.stallTimeout
    OUT_OF_MEMORY = reasons.OUT_OF_MEMORY
    EVICTED = (
        "Evicted"  # a failure beyond its own limit of scratch space; an interruption if its node was low on something
    )
    COMMAND_NOT_FOUND = reasons.COMMAND_NOT_FOUND
    PYTHON_INCOMPLETE = "PythonIncomplete"  # the image's python3 cannot run the launcher
    POD_INVALID = "PodInvalid"


class Drain(Model):
    """The order to save a checkpoint and leave the node."""

    order: Step
    """Id of the order, unique in the job."""
    reason: Reason
    """Reason for the order, in one CamelCase word."""
    message: Message = ""
    """Reason for the order, in words."""
    at: Time
    """When the order was given."""
    deadline: Time
    """When the node goes away, or the time to save ends."""
    kind: EndKind = EndKind.INTERRUPTION
    """How the end of the attempt will count."""
    acknowledged_at: Time | None = None
    """When the pod acknowledged the order."""
    deleted_at: Time | None = None
    """When the pod was deleted, because it did not answer or the deadline passed."""
    kill_at: Time | None = None
    """When the grace period of that deletion ends."""


class Departure(Model):
    """The node will go away: the attempt leaves once its successor waits at the fence, at the latest at leaveAt."""

    reason: Reason
    """Why the node goes away, in one CamelCase word."""
    message: Message = ""
    """Why the node goes away, in words."""
    at: Time
    """When the departure was decided."""
    deadline: Time
    """When the node goes away."""
    leave_at: Time
    """The latest time at which the attempt leaves, so that its last save is complete in time."""


class FieldDigest(Model):
    """A field of spec, and a digest of its value."""

    field: Name
    """Path of the field in spec, such as checkpoint.every."""
    digest: Name
    """Digest of the value. The order of a list that is a map does not count, nor how a quantity or a duration is
    written."""


class PodRecord(Model):
    """One pod of an attempt, as last seen."""

    rank: Count = 0
    """Rank of the pod in its gang."""
    uid: Name | None = None
    """UID of the pod."""
    node: Name | None = None
    """Name of the pod's node."""
    node_uid: Name | None = None
    """UID of the pod's node when the pod was placed. A node that is registered again has another UID."""
    granted: Flag = False
    """True if the cluster gave the pod this node: the operator saw the pod without a node before, and the tier may use
    the node. Other jobs learn only from such attempts: the creator of a pod can write the name of any node into it."""


class MemberGroup(Model):
    """Pods of a training on several nodes which one attempt created. Later attempts may take them over."""

    born: Count
    """Number of the attempt that created the pods. The number is part of their names."""
    ranks: RankSet
    """Ranks of the pods, such as 0-6,8."""


class SlowRank(Model):
    """A rank that works longer in each step than the others, which wait for it."""

    rank: Count
    """Rank of the process."""
    pod: Count
    """Rank of its pod."""
    node: Name | None = None
    """Name of its node."""
    times: Number
    """How many times as long as the other ranks it works, a decimal string."""


class World(Model):
    """Where the programs of all nodes of an attempt meet."""

    address: Name
    """Address of the node with rank 0."""
    port: Count
    """Port on which the program of rank 0 listens."""


class Attempt(Model):
    """One attempt that has not ended."""

    number: Count
    """Number of the attempt. It is also the number of its storage fence."""
    state: AttemptState
    """State of the attempt."""
    tier: ProfileTier
    """The tier as it was when the attempt was decided. Changes of the grid, but for the price, do not affect an attempt
    that has its nodes, and on several nodes the next attempts keep the tier while they take over pods."""
    raised_at: Time
    """When the attempt was decided, before it had any pod."""
    made_from: Annotated[tuple[FieldDigest, ...], Field(max_length=MAX_FIELDS), KeyedBy("field")] = ()
    """Fields of spec that its pods are made from; those at their defaults are left out. If trainer or
    checkpoint.storage has another value in spec, the attempt saves and leaves. The other ones count from the next
    attempt on."""
    pods: Annotated[tuple[PodRecord, ...], Field(max_length=MAX_PODS), KeyedBy("rank")] = ()
    """Pods of the attempt."""
    nodes: Count = 1
    """Number of its pods. Each pod has a node of its own."""
    members: Annotated[tuple[MemberGroup, ...], Field(max_length=MAX_GROUPS), KeyedBy("born")] = ()
    """Its pods, by the attempt that created them. Empty if it created all of its pods itself."""
    accelerators: Count | None = None
    """Number of accelerators that each of its pods asks for. Set once its pods are to be created."""
    inherited_at: Time | None = None
    """Since when it pays for the nodes of the pods that it took over from an earlier attempt."""
    held_for: Duration = timedelta(0)
    """Node time of its pods before the last of them got a node, and of pods that were given back, summed. Only with
    several nodes."""
    holds: Count = 0
    """How many nodes the pods that it created have, while others of them have none. Only with several nodes."""
    held_since: Time | None = None
    """The mean of the times at which these pods got their nodes."""
    world: World | None = None
    """Where its programs meet. Set once every pod is ready; only with several nodes."""
    created_at: Time | None = None
    """When its pod was created."""
    scheduled_at: Time | None = None
    """When its pod got a node; with several nodes, the last of its pods."""
    charged: Money = Decimal(0)
    """Money for its node up to pricedAt, at the earlier prices."""
    priced_at: Time | None = None
    """Since when the current price of its tier applies. Only set if the price changed while the pod had its node."""
    started_at: Time | None = None
    """When its trainer container started."""
    progress_at: Time | None = None
    """When it trained its first own step."""
    fenced: Flag = False
    """True if the attempt holds the storage fence: once a later attempt takes the fence, this one can write nothing."""
    first_step: Step | None = None
    """Its first own step."""
    last_step: Step | None = None
    """Its newest step."""
    last_step_at: Time | None = None
    """When it trained its newest step."""
    resumed_step: Step | None = None
    """The step that it resumed from. Not set if it started from the beginning."""
    slow: Annotated[tuple[SlowRank, ...], Field(max_length=8), KeyedBy("rank")] = ()
    """Its slow ranks, the slowest first."""
    replaces: Name | None = None
    """Name of the node that it leaves once its successor is ready, because a rank is slow there."""
    departure: Departure | None = None
    """Set while it still trains although its node will go away."""
    drain: Drain | None = None
    """Set once it is ordered to leave."""
    predecessor: Count | None = None
    """Number of the attempt that trained when this pod was created. The pod waits at the fence for the handover of that
    attempt, or for an order."""
    go: Step | None = None
    """Id of the order that lets it pass the fence, once it was given."""
    failed_successors: Count = 0
    """How many of its successors were given up for a reason that may persist. A successor that was interrupted does not
    count."""
    return_after: Time | None = None
    """Earliest time of the next try to return to a better tier."""
    refusals: Count = 0
    """How many times the API server refused its pod (quota, admission)."""
    retry_at: Time | None = None
    """Earliest time at which its pod is created."""
    replaced: Count = 0
    """How many times its pod was deleted from outside before it had a node, including the pods of the attempts that
    this one replaces."""
    acquire_deadline: Time | None = None
    """When the next tier is tried."""
    waits_since: Time | None = None
    """Since when it waits until a node of its tier is free for each of its pods. No pod of it exists meanwhile. Only
    with several nodes."""
    given_back: Count = 0
    """How many times the job gave a part of its nodes back because it did not get the rest in time. Only with several
    nodes."""
    avoid_nodes: Annotated[tuple[Name, ...], Field(max_length=MAX_AVOIDED)] = ()
    """Names of nodes that its pod must not use."""

    @property
    def granted(self) -> bool:
        """True if the cluster gave the attempt its node: see PodRecord."""
        return bool(self.pods) and self.pods[0].granted


class Recovery(Model):
    """The time from the last step of one attempt until lost steps are trained again, by phase."""

    notice: Duration = timedelta(0)
    """From the last step to the end of its pod: the time to save and leave, or to notice the interruption."""
    acquire: Duration = timedelta(0)
    """From the end of that pod until the next pod has a node."""
    start: Duration = timedelta(0)
    """From then until the trainer container starts: image, storage check."""
    restore: Duration = timedelta(0)
    """From then until the first step: loading the program and the checkpoint."""
    replay: Duration = timedelta(0)
    """Time to train the lost steps again, at the pace at which they were trained before."""


class AttemptRecord(Model):
    """One attempt that has ended."""

    number: Count
    """Number of the attempt."""
    tier: Name
    """Name of its tier."""
    node: Name | None = None
    """Name of its node; with several nodes, of the node that its end is about. Not set if it never had a node."""
    rank: Count | None = None
    """Rank of the pod that its end is about. Only with several nodes."""
    node_hours: Hours | None = None
    """Hours of node time, summed over its nodes. Only with several nodes."""
    kind: EndKind
    """How its end counts. Interruption: not the user's fault. Failure: an error of the program. Stopped: the operator
    ended it."""
    reason: Reason
    """Why it ended, in one CamelCase word."""
    message: ShortMessage = ""
    """Why it ended, in words. For a failed program: its last lines of output."""
    raised_at: Time
    """When the attempt was decided."""
    scheduled_at: Time | None = None
    """When its pod got a node."""
    started_at: Time | None = None
    """When its trainer container started."""
    ended_at: Time
    """When it ended."""
    pod_uid: Name | None = None
    """UID of its pod if the end was not observed, to tell this pod from another one with the same name."""
    node_at_fault: Flag = False
    """True if a training on several nodes hung, and what its ranks did shows that this node was the cause."""
    estimated: Flag = False
    """True if the end was not observed, so that endedAt is an estimate."""
    fruitless: Flag = False
    """True if the attempt counts against spec.failure.maxFruitless, unless a later attempt makes progress."""
    first_step: Step | None = None
    """Its first own step."""
    first_step_at: Time | None = None
    """When it trained its first own step."""
    last_step: Step | None = None
    """Its last step."""
    last_step_at: Time | None = None
    """When it trained its last step."""
    resumed_step: Step | None = None
    """The step that it resumed from. Not set if it started from the beginning."""
    steps_trained: Step = 0
    """Number of steps that it trained."""
    steps_lost: Step | None = None
    """Number of its steps that the next attempt trained again. Set once that is known."""
    cost: Money | None = None
    """Cost of its node since the pod got it. Not set if the tier has no price."""
    seconds_lost: Duration | None = None
    """Time from its last step to the first step of the next attempt. Set once that is known."""
    recovery: Recovery | None = None
    """The same time by phase, and the time to train lost steps again."""
