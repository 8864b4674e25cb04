"""A container that cannot start: a bad image, a missing Secret."""

from holdfast.api import names
from holdfast.api.attempt import EndKind
from holdfast.core.attempt.end import over
from holdfast.core.attempt.why_ended import End
from holdfast.core.draft import Draft
from holdfast.core.observe.pods import ContainerView
from holdfast.core.observe.situation import Situation


def stuck(draft: Draft, s: Situation) -> None:
    """A container cannot be made: bad image, missing Secret. Another tier would not help, if it is the job's fault."""
    container = stuck_container(s)
    if container is None:
        raise AssertionError("a stuck pod has a stuck container")
    reason, text = container.waiting or "", f"container {container.name}: {container.message}"
    status = draft.status
    worked = status.ledger.folded_through > 0 or any(record.started_at for record in status.history)
    ours = container.name == names.INIT_CONTAINER and reason in STUCK_AT_ONCE | STUCK_AFTER_PULL_GRACE
    if worked or ours or reason in STUCK_BY_NODE:
        over(draft, s, End(EndKind.LOSS, reason, text, infrastructure=True))
    else:
        over(draft, s, End(EndKind.MISCONFIGURED, reason, text))


def stuck_container(s: Situation) -> ContainerView | None:
    """A container that waits for something that will not come by itself, or None."""
    if s.pod is None:
        return None
    stuck_for = STUCK_AT_ONCE | STUCK_AFTER_CONFIG_GRACE | STUCK_AFTER_PULL_GRACE
    containers = (*s.pod.init, *((s.pod.trainer,) if s.pod.trainer else ()))
    return next((container for container in containers if container.waiting in stuck_for), None)


STUCK_AT_ONCE = frozenset(("InvalidImageName", "ErrImageNeverPull"))

STUCK_AFTER_CONFIG_GRACE = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))

STUCK_BY_NODE = frozenset(("CreateContainerError", "RunContainerError"))  # the node's container runtime said no

STUCK_AFTER_PULL_GRACE = frozenset(("ErrImagePull", "ImagePullBackOff"))


def stuck_for_good(draft: Draft, s: Situation) -> bool:
    """True if a container waits for something that will not come, longer than that kind of trouble may last."""
    found = stuck_container(s)
    if found is None:
        return False
    config, reason = draft.snapshot.config, found.waiting
    grace = config.image_pull_grace if reason in STUCK_AFTER_PULL_GRACE else config.config_error_grace
    at = s.now if reason in STUCK_AT_ONCE else (draft.attempt.scheduled_at or s.now) + grace
    if s.now < at:
        draft.wake(at)
    return s.now >= at
