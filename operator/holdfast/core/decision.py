"""What a decision consists of: a new status, actions, orders, events, and when to look again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from holdfast.api.attempt import World
from holdfast.api.status import TrainingJobStatus
from holdfast_protocol import orders


@dataclass(frozen=True, slots=True)
class CreatePod:
    """POST this pod. "Already exists" is success if owner UID and attempt match, otherwise a Refusal (NameTaken).

    A `promised` pod may be created before the status is written. The stored status has its number already or, where
    the fence tells programs apart, the number before it; and every earlier pod of the job has ended, except the one
    that it follows, and except the pods beside which it is one of several.
    """

    attempt: int
    rank: int
    manifest: Mapping[str, Any]
    promised: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """DELETE with a UID precondition. `grace` in seconds, None for the pod's own."""

    name: str
    uid: str
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Remove Holdfast's finalizer: the pod's end is in status. Success too if the pod is gone."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class HoldPod:
    """Add Holdfast's finalizer again: an uninstallation removed it from a pod that still trains."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class UnprotectPod:
    """Remove the do-not-disrupt annotations: the pod is leaving anyway."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class InspectPod:
    """Read the warnings about this pod, and restore the certificate that it mounts: it does not start, or is silent."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """DELETE the TrainingJob, with background propagation, if it has not changed since: its TTL is over."""

    uid: str


Action = CreatePod | DeletePod | ReleasePod | HoldPod | UnprotectPod | InspectPod | DeleteJob


@dataclass(frozen=True, slots=True)
class Order:
    """What a trainer is to do. All open orders are derived from status, so they survive a restart of the operator."""

    id: int
    type: orders.Type
    pod_uid: str
    deadline: datetime | None  # secondsLeft is computed when the order is handed out
    reason: str


@dataclass(frozen=True, slots=True)
class WorldOrder:
    """What the launchers of an attempt with several nodes are to do: meet, and start the program once `world` is set.

    The attempt is in status with its world before an order goes out, so no two operators give different orders.
    """

    attempt: int
    world: World | None
    predecessor: int | None  # the attempt that still trains; the program waits at the storage fence
    ranks: Mapping[str, int]  # by pod UID
    leave: bool = False  # no attempt follows: a launcher whose program has ended ends too


@dataclass(frozen=True, slots=True)
class Event:
    """An Event for people. The executor drops repetitions."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Executed in this order: status patch (if status differs; with resourceVersion), orders, actions, events.

    An order to drain because of a notice goes out before the patch. If the patch fails, nothing else is done and the
    job is decided again. `trace` names the rows that fired.
    """

    status: TrainingJobStatus
    actions: tuple[Action, ...] = ()
    orders: tuple[Order, ...] = ()  # all that are open now; replaces what was open before
    worlds: tuple[WorldOrder, ...] = ()  # of all attempts with several nodes that are not over
    asked: tuple[str, ...] = ()  # UIDs of pods whose launchers are to show that they live
    events: tuple[Event, ...] = ()
    requeue_at: datetime | None = None
    trace: tuple[str, ...] = ()
