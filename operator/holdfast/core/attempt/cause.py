"""Which end of a pod, or of its program, ends an attempt.

With several nodes, one program that fails takes all others down within seconds: their collectives are refused or reset.
Such an error of a peer says that something else ended first. So it is the cause only if nothing else is found.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from holdfast.api.attempt import AttemptState, EndKind, EndReason
from holdfast.core.attempt.why_ended import MESSAGE_LIMIT, End, classify
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.situation import Member, Sight
from holdfast.core.turn import Turn
from holdfast_protocol import reasons
from holdfast_protocol.hang import at_fault
from holdfast_protocol.lost_peer import says_peer_is_gone
from holdfast_protocol.verdict import WRITER_SECONDS

SETTLE: Final = timedelta(seconds=2)  # programs that fail together tell it within this time, and so does a kubelet
# How long the errors of peers wait for the one that ended first: its node may be dead, which is seen after 40 s, or its
# launcher waits for a checkpoint that is on its way, for WRITER_SECONDS at most.
PATIENCE: Final = timedelta(seconds=WRITER_SECONDS + 15)
# How long a hang that one launcher tells waits for the others: each finds it by itself, and stores its evidence.
HANG_PATIENCE: Final = timedelta(seconds=45)
_CLUSTER: Final = 2  # the place of what the cluster did, in the order of causes
_BEYOND_LIMITS: Final = (EndReason.OUT_OF_MEMORY, EndReason.EVICTED)


class Cause(NamedTuple):
    """How an attempt ended. `rank` and `pod` say where; `at` is None if that is not known."""

    end: End
    pod: PodView
    at: datetime | None = None
    rank: int | None = None


def find_cause(turn: Turn) -> Cause | None:
    """The cause if the attempt is over: its pod ended or, with several nodes, one did and what it says is enough."""
    if turn.attempt.nodes > 1:
        return _of_members(turn)
    if turn.pod is None:
        return None
    return _of_pod(turn, turn.pod)


def _of_pod(turn: Turn, pod: PodView, rank: int | None = None) -> Cause | None:
    """How a pod ended; None while its kubelet may still say why."""
    end, at = classify(pod, turn.attempt.drain), _ended_at(pod)
    if _may_be_explained(turn, pod, end) and not _is_over(turn, at, SETTLE):
        return None
    return Cause(end, pod, at, rank)


def _may_be_explained(turn: Turn, pod: PodView, end: End) -> bool:
    """True if a signal ended the program, and nothing yet says who sent it.

    A kubelet that evicts a pod for what it uses says so with the final phase, about a second after the container's end.
    """
    is_said = pod.is_final or pod.others_run or turn.attempt.drain or pod.deleted_at or pod.disruption
    return not is_said and end.kind is EndKind.INTERRUPTION and end.reason != EndReason.CONTAINER_LOST


def _of_members(turn: Turn) -> Cause | None:
    over = [member for member in turn.situation.members if member.sight is Sight.ENDED or member.over]
    causes = [cause for member in over if (cause := _of_member(turn, member))]
    if not causes:
        return None
    own = [cause for cause in causes if cause.end.kind is not EndKind.COMPLETED and not is_of_peer(cause.end)]
    doubtful = _is_one_in_doubt(turn, min(cause.at or turn.now for cause in causes))
    everyone = len(over) == turn.attempt.nodes or turn.attempt.state is AttemptState.DRAINING
    if own:
        stays = {member.rank: member.goes_on for member in over}
        found = min(own, key=lambda cause: (_order(cause), stays[cause.rank or 0], cause.at or turn.now, cause.rank))
        if found.end.hang is not None:
            is_told = everyone or _is_over(turn, found.at, HANG_PATIENCE)
            return _blamed(found, own) if is_told else None
        if everyone or _order(found) <= _CLUSTER:
            return found
        return found if not doubtful and _is_over(turn, found.at, SETTLE) else None
    peers = [cause for cause in causes if cause.end.kind is not EndKind.COMPLETED]
    if not peers:  # some have completed: the others will
        return min(causes, key=lambda cause: cause.rank or 0) if everyone else None
    since = min((cause.at for cause in peers if cause.at), default=None)
    if doubtful or not _is_over(turn, since, SETTLE if everyone else PATIENCE):
        return None
    first = min(peers, key=lambda cause: (cause.at or turn.now, cause.rank))
    text = f"no program failed by itself; the first one that lost a connection said: {first.end.message}"
    end = End(EndKind.INTERRUPTION, EndReason.CONNECTION_LOST, text[:1024], infrastructure=True, step=first.end.step)
    return first._replace(end=end)


def pod_of_end(turn: Turn, end: End, seen: PodView | None) -> PodView | None:
    """The pod that an end is about: `seen`, or the one on the node that several nodes left because of a slow rank."""
    if end.reason == EndReason.SLOW_RANK:
        pods = (member.pod for member in turn.situation.members)
        return next((pod for pod in pods if pod and pod.node == turn.attempt.replaces), seen)
    return seen


def _blamed(first: Cause, causes: Iterable[Cause]) -> Cause:
    """The cause of the node that is at fault for a hang; `first` if that is not known."""
    hung = {cause.rank: cause for cause in causes if cause.rank is not None and cause.end.hang is not None}
    faults = at_fault({rank: cause.end.hang for rank, cause in hung.items() if cause.end.hang is not None})
    if not faults:
        return first
    fault, *_ = faults
    found = hung[fault.rank]
    words = f"the node of rank {fault.rank} is at fault: {fault.why}; {found.end.message}"
    return found._replace(end=replace(found.end, message=words[:MESSAGE_LIMIT], at_fault=True))


def _is_over(turn: Turn, since: datetime | None, wait: timedelta) -> bool:
    """True if `wait` has passed since `since`, or its end cannot be told.

    A kubelet may not say when a container ended, or its clock may be hours ahead: then nothing is waited for.
    """
    return since is None or since > turn.now + wait or turn.draft.is_due(since + wait)


def _is_one_in_doubt(turn: Turn, first: datetime) -> bool:
    """True if a node is silent, and nothing was heard from there since the first program ended.

    It may be dead, and that is why the programs on the other nodes have ended. `core.attempt.silent_node` finds it out.
    """
    silent = [one for one in turn.situation.members if one.sight is Sight.SILENT and not one.over]
    return any(one.report is None or one.report.received_at <= first for one in silent)


def _of_member(turn: Turn, member: Member) -> Cause | None:
    """How one member ended. Its launcher tells it if the pod goes on."""
    if member.pod is None:
        return None
    if member.pod.ended:
        return _of_pod(turn, member.pod, member.rank)
    if member.report is None:
        return None
    end = classify(member.pod, turn.attempt.drain, told=member.report.verdict)
    return Cause(end, member.pod, member.report.ended_at, member.rank)


def _order(cause: Cause) -> int:
    """How much a cause explains, the most first.

    A program that can never work; a program whose ranks say why they failed, or whose memory ran out; what the cluster
    did to a pod; a program that failed without evidence: possibly a consequence of what the cluster did on another
    node; a program that was told to end.
    """
    end = cause.end
    if end.reason == reasons.REGROUPED:
        return _CLUSTER + 2
    if end.kind is EndKind.FAILURE:
        return 1 if end.peer is False or end.reason in _BEYOND_LIMITS else _CLUSTER + 1
    return 0 if end.kind is EndKind.MISCONFIGURED else _CLUSTER


def is_of_peer(end: End) -> bool:
    """True if a program failed because another one, on another node, was gone."""
    if end.kind is not EndKind.FAILURE:
        return False
    return says_peer_is_gone(end.message) if end.peer is None else end.peer


def _ended_at(pod: PodView) -> datetime | None:
    """When the trainer ended or, if it never began, the init container that failed."""
    if pod.trainer is not None and pod.trainer.ended:
        return pod.trainer.ended_at
    return next((one.ended_at for one in pod.init if one.ended and one.exit_code != 0), None)
