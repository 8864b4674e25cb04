"""What keeps a pod that has a node from starting: an image, a Secret, a volume, a container that somebody injected."""

from dataclasses import dataclass
from datetime import datetime

from holdfast.api import names
from holdfast.core.observe.pods import ContainerView, PodView

# Reasons of a container that waits for nothing but its turn.
_ORDINARY = frozenset(("ContainerCreating", "PodInitializing"))
# A kubelet alternates between the two; for people they are one trouble.
_SAME = {"ErrImagePull": "ImagePullBackOff"}


@dataclass(frozen=True, slots=True)
class StartTrouble:
    """Why a pod does not start: a reason in one CamelCase word, and the words for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the warnings about a pod said when they were last read."""

    at: datetime
    trouble: StartTrouble | None = None


def is_ours(container: ContainerView) -> bool:
    """True if Holdfast made the container: its init container or the trainer. Others were injected into the pod."""
    return container.name in (names.INIT_CONTAINER, names.TRAINER_CONTAINER)


def find_start_trouble(pod: PodView, inspection: Inspection | None = None) -> StartTrouble | None:
    """What keeps the pod from starting: its first container in trouble, otherwise what its warnings say; or None.

    Warnings about volumes and network do not count any more once these are there.
    """
    containers = (*pod.init, *((pod.trainer,) if pod.trainer else ()))
    found = next((one for one in containers if one.waiting and one.waiting not in _ORDINARY), None)
    if found is None:
        return inspection.trouble if inspection and not pod.prepared else None
    reason = found.waiting or ""
    who = f"container {found.name}" + ("" if is_ours(found) else ", which Holdfast did not add,")
    return StartTrouble(_SAME.get(reason, reason), f"{who} cannot start: {found.message or reason}")
