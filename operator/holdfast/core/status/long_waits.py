"""Why a job waits for something that may never come of its own: a silent node, a pod that does not end.

If the program of this attempt could do harm, the next one must not start while it may still run. Such a wait has no
limit, so its reason says what people can do.
"""

from holdfast.api.attempt import AttemptState, EndReason
from holdfast.api.scalars import format_duration
from holdfast.core.attempt.all_or_none import waiting_for
from holdfast.core.attempt.drain import outlived_grace_since
from holdfast.core.attempt.fence import why_wait
from holdfast.core.draft import Draft
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.turn import Turn, take_turn

KEEP_POD = "KeepPod"  # the decision's action while many nodes are silent, or one of several
CONFIRM = (
    "it goes on once the old pod is confirmed gone: the node answers again, or somebody deletes the Node, taints it "
    "node.kubernetes.io/out-of-service, or deletes the pod by force"
)
WAITING_FOR_ROOM = "WaitingForNodes"
_ON_NODE = (AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING)


def explain_long_wait(draft: Draft, s: Situation) -> None:
    """Explain why a silent node's pod is kept, that the node answers again, and that a pod does not end."""
    current, said = draft.status.current, draft.status.decision
    if current is None or current.state not in _ON_NODE or s.node is None:
        return
    if pod := stuck_pod(draft, s):
        text = (
            f"pod {pod.name} did not end within its grace, and {why_wait(draft, current)}, so its replacement waits "
            f"until the pod has ended: see what the kubelet of node {s.node.name} says about it; if nothing runs "
            "there, delete the pod by force"
        )
        draft.explain("Wait", text)
        if said != draft.status.decision:
            draft.event(EndReason.NEVER_ENDED, text, warning=True)
    elif s.sight is Sight.SILENT and draft.snapshot.cluster.outage(s.node, s.now):
        if current.drain is not None and current.drain.reason == EndReason.NODE_SILENT:
            return  # the order has the same explanation
        limit = format_duration(draft.snapshot.config.outage_timeout)
        until = f"its pod is kept for {limit}" if why_wait(draft, current) is None else f"its pod is kept; {CONFIRM}"
        draft.explain(KEEP_POD, f"node {s.node.name} fell silent together with half of all nodes or more: {until}")
    elif s.sight is Sight.SILENT and s.members and s.pod and current.state is not AttemptState.DRAINING:
        text = f"node {s.node.name} (rank {s.pod.rank}) is silent; its pod is replaced if its launcher is silent too"
        draft.explain(KEEP_POD, text)
    elif said and said.action == KEEP_POD and not _is_any_silent(s):
        draft.explain("Run", "all nodes answer again" if s.members else f"node {s.node.name} answers again")


def _is_any_silent(s: Situation) -> bool:
    return s.sight is Sight.SILENT or any(member.sight is Sight.SILENT for member in s.members)


def explain_lack(draft: Draft) -> None:
    """Explain that a training on several nodes waits until nodes are free for all of its pods."""
    if text := waiting_for(draft):
        draft.explain("Wait", text)


def stuck_pod(draft: Draft, s: Situation) -> PodView | None:
    """The pod of an attempt that leaves, if it outlived its grace on a node that answers, and no fence protects."""
    current, turn = draft.status.current, take_turn(draft)
    if current is None or turn is None or s.sight not in (Sight.PLACED, Sight.RUNNING):
        return None
    if current.state is not AttemptState.DRAINING or why_wait(draft, current) is None:
        return None
    return s.pod if _outlived(turn) else None


def _outlived(turn: Turn) -> bool:
    since = outlived_grace_since(turn)
    return since is not None and turn.draft.is_due(since)
