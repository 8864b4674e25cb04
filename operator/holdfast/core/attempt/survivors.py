"""Which pods of an attempt with several nodes the next attempt takes over, so that they start warm and need no node."""

from typing import Final

from holdfast.api.attempt import Attempt, EndReason
from holdfast.api.failure import FailureAction
from holdfast.core.books.history import not_stopped
from holdfast.core.draft import Draft
from holdfast.core.made_from import hash_of
from holdfast.core.observe.members import few_enough
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Situation
from holdfast.core.observe.start_trouble import find_start_trouble

# Attempts in a row without a new step, after which the node of the last cause is left, and after which all pods are
# started again: something in them may be broken that no restart of the program mends.
SUSPECT_AFTER: Final = 2
COLD_AFTER: Final = 3


def must_leave_node(draft: Draft, attempt: Attempt, action: FailureAction | None) -> bool:
    """True if the node that the end of `attempt` is about has to be left. `action`: what the user has decided about it.

    With several nodes, also if two attempts in a row made no new step, or hung because of the same node. `attempt` is
    in the history already.
    """
    if attempt.nodes == 1 or action == "Elsewhere":
        return action == "Elsewhere"
    last = not_stopped(draft.status.history)[-2:]
    hung = len(last) == 2 and all(one.reason == EndReason.STALLED for one in last)
    return draft.status.fruitless_attempts >= SUSPECT_AFTER or (hung and last[0].node == last[1].node)


def survivors(draft: Draft, attempt: Attempt, seen: Situation, avoid: tuple[str, ...] = ()) -> dict[int, int]:
    """By rank: the number of the attempt that created the pod, for each pod that can go on.

    Pods on the nodes of `avoid` do not go on, nor do pods that are made from other values of the spec, nor pods that
    cannot start: a new pod gives its node back, and tries again. Empty if the next attempt starts all pods again.
    """
    if attempt.nodes == 1 or draft.status.fruitless_attempts >= COLD_AFTER:
        return {}
    same = hash_of(draft.made_from)
    kept = {
        member.rank: member.born
        for member in seen.members
        if member.goes_on and member.pod and _may_go_on(member.pod, same, avoid)
    }
    return few_enough(kept)


def _may_go_on(pod: PodView, same: str, avoid: tuple[str, ...]) -> bool:
    return pod.made_from == same and pod.node not in avoid and find_start_trouble(pod) is None
