"""A container that cannot start: a bad image, a missing Secret."""

from holdfast.api import names
from holdfast.api.attempt import EndKind
from holdfast.core.attempt.end import end_attempt
from holdfast.core.attempt.why_ended import End
from holdfast.core.observe.pods import ContainerView
from holdfast.core.turn import Turn

STUCK_AT_ONCE = frozenset(("InvalidImageName", "ErrImageNeverPull"))
STUCK_AFTER_CONFIG_GRACE = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))
STUCK_AFTER_PULL_GRACE = frozenset(("ErrImagePull", "ImagePullBackOff"))
STUCK_BY_NODE = frozenset(("CreateContainerError", "RunContainerError"))  # the node's container runtime refused
STUCK = STUCK_AT_ONCE | STUCK_AFTER_CONFIG_GRACE | STUCK_AFTER_PULL_GRACE


def stuck_container(turn: Turn) -> ContainerView | None:
    """The container if its image or configuration cannot work, for longer than such trouble may last."""
    pod, config = turn.pod, turn.draft.snapshot.config
    containers = (*pod.init, *((pod.trainer,) if pod.trainer else ())) if pod else ()
    found = next((container for container in containers if container.waiting in STUCK), None)
    if found is None:
        return None
    grace = config.image_pull_grace if found.waiting in STUCK_AFTER_PULL_GRACE else config.config_error_grace
    at = turn.now if found.waiting in STUCK_AT_ONCE else (turn.attempt.scheduled_at or turn.now) + grace
    return found if turn.draft.is_due(at) else None


def fail_stuck(turn: Turn, container: ContainerView) -> None:
    """End the attempt: as a loss if the node or Holdfast's own image may be at fault, otherwise as misconfigured."""
    reason, text = container.waiting or "", f"container {container.name}: {container.message}"
    status = turn.draft.status
    worked = status.ledger.folded_through > 0 or any(record.started_at for record in status.history)
    ours = container.name == names.INIT_CONTAINER and reason in STUCK_AT_ONCE | STUCK_AFTER_PULL_GRACE
    if worked or ours or reason in STUCK_BY_NODE:
        end_attempt(turn, End(EndKind.LOSS, reason, text, infrastructure=True))
    else:
        end_attempt(turn, End(EndKind.MISCONFIGURED, reason, text))
