"""A container of Holdfast that cannot start: a bad image, a missing Secret, a registry that does not give the image.

Such trouble may pass: a Secret is applied later, a registry answers again. So the attempt gives its node back and the
next one starts after a growing delay. Only what a person has to correct ends or pauses the job: a name that no image
can have, or a refusal that several attempts in a row met.
"""

import re

from holdfast.api import names
from holdfast.api.attempt import EndKind
from holdfast.core.attempt.end import end_attempt
from holdfast.core.attempt.failure_rules import REFUSALS, is_last_try
from holdfast.core.attempt.fruitless import has_run
from holdfast.core.attempt.why_ended import End
from holdfast.core.books.history import not_stopped
from holdfast.core.observe.pods import ContainerView
from holdfast.core.observe.start_trouble import is_ours
from holdfast.core.turn import Turn

INVALID_IMAGE, NEVER_PULLED, BAD_CONFIG = "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"
STUCK_AT_ONCE = frozenset((INVALID_IMAGE, NEVER_PULLED))
STUCK_AFTER_CONFIG_GRACE = frozenset((BAD_CONFIG, "CreateContainerError", "RunContainerError"))
STUCK_AFTER_PULL_GRACE = frozenset(("ErrImagePull", "ImagePullBackOff"))
STUCK_BY_NODE = frozenset(("CreateContainerError", "RunContainerError"))  # the node's container runtime refused
STUCK = STUCK_AT_ONCE | STUCK_AFTER_CONFIG_GRACE | STUCK_AFTER_PULL_GRACE

# A registry that refuses the image: only a person can change that, if it is not said once by mistake.
_REFUSED = re.compile(
    r"not found|manifest unknown|name unknown|denied|unauthorized|forbidden|authentication required|no basic auth"
    r"|is not present with pull policy of Never",
    re.IGNORECASE,
)
# A registry, or the way to it, that does not work at the moment; outweighs the words above.
_PASSING = re.compile(
    r"too ?many ?requests|unavailable|bad gateway|internal server error|time-?out|timed out|deadline exceeded"
    r"|connection re(set|fused)|no such host|: EOF",
    re.IGNORECASE,
)
# The way from this node to the registry; the registry has not answered.
_NO_WAY = re.compile(r"dial tcp|no such host|connection re(set|fused)|time-?out|timed out|x509|tls:", re.IGNORECASE)


def stuck_container(turn: Turn) -> ContainerView | None:
    """The container if its image or configuration does not work, for longer than a node is kept for it."""
    pod, config = turn.pod, turn.draft.snapshot.config
    containers = (*pod.init, *((pod.trainer,) if pod.trainer else ())) if pod else ()
    # A container that somebody injected is waited for, until the whole start takes too long.
    found = next((one for one in containers if is_ours(one) and one.waiting in STUCK), None)
    if found is None:
        return None
    grace = config.config_error_grace
    if found.waiting in STUCK_AFTER_PULL_GRACE:
        grace = config.image_refused_grace if is_refused(found.waiting, found.message) else config.image_pull_grace
    at = turn.now if found.waiting in STUCK_AT_ONCE else (turn.attempt.scheduled_at or turn.now) + grace
    return found if turn.draft.is_due(at) else None


def fail_stuck(turn: Turn, container: ContainerView) -> None:
    """End the attempt: misconfigured if it can never work, otherwise an interruption, after which another one follows.

    A job that has run does not try again until it has failed for good: a person may still correct what is wrong.
    """
    reason, text = container.waiting or "", f"container {container.name}: {container.message}"
    never = container.name == names.TRAINER_CONTAINER and _can_never_work(turn, reason, container.message)
    if never or (has_run(turn) and is_last_try(turn.draft)):
        end_attempt(turn, End(EndKind.MISCONFIGURED, reason, text))
        return
    anywhere = reason not in STUCK_BY_NODE and not _NO_WAY.search(container.message)
    end_attempt(turn, End(EndKind.INTERRUPTION, reason, text, infrastructure=True, anywhere=anywhere))


def is_refused(reason: str, message: str) -> bool:
    """True if the words say that a person has to change something: the image's name, a right, the image's user."""
    if reason == BAD_CONFIG:  # everything else is a Secret or a ConfigMap that may be created later
        return "runAsNonRoot" in message
    if reason not in STUCK_AFTER_PULL_GRACE and reason != NEVER_PULLED:
        return False
    return bool(_REFUSED.search(message)) and not _PASSING.search(message)


def _can_never_work(turn: Turn, reason: str, message: str) -> bool:
    """True if no image can have that name, or the attempts before were refused too: one, or more if the job has run."""
    if reason == INVALID_IMAGE:
        return True
    others = REFUSALS - 1 if has_run(turn) else 1
    before = not_stopped(turn.draft.status.history)[-others:]
    if len(before) < others or turn.draft.status.fruitless_interruptions < others:
        return False
    return is_refused(reason, message) and all(is_refused(one.reason, one.message) for one in before)
