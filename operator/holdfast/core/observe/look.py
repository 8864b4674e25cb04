"""Look at an attempt: its pods, their nodes, what they report, and what announces their end."""

from typing import Final

from holdfast.api.attempt import Attempt, AttemptState, EndKind
from holdfast.core.observe.members import births, pods_by_rank
from holdfast.core.observe.nodes import NodeView
from holdfast.core.observe.notices import find_notice
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.situation import Member, Sight, Situation
from holdfast.core.observe.snapshot import Snapshot
from holdfast.core.observe.start_trouble import find_start_trouble

# One member that is lost, or whose program ended, stops all others: what is seen of it is seen of the attempt. Where a
# node is silent, the programs of the others fail, so the silence comes before what their launchers tell.
_ORDER: Final = (
    Sight.NODE_GONE, Sight.VANISHED, Sight.ENDED, Sight.ABSENT, Sight.PENDING, Sight.CREATED, Sight.SILENT,
    Sight.PLACED, Sight.RUNNING,
)  # fmt: skip
_TOLD: Final = _ORDER.index(Sight.PLACED) - 0.5  # where the end of a program stands whose pod goes on
GOING: Final = frozenset((Sight.PLACED, Sight.RUNNING))


def look(snapshot: Snapshot, attempt: Attempt | None, created: frozenset[int] = frozenset()) -> Situation:
    """The situation of `attempt`. `created`: numbers of attempts whose pods this decision creates."""
    if attempt is None or attempt.state is AttemptState.INTENDED:
        return Situation(snapshot.now, Sight.NOTHING)
    if attempt.nodes > 1:
        return _look_at_members(snapshot, attempt, created)
    pod = pod_of(snapshot, attempt)
    if pod is None:
        return Situation(snapshot.now, _missing(attempt, created))
    node = snapshot.cluster.nodes.get(pod.node) if pod.node else None
    sight = _seen(pod, node, had_node=_had_node(attempt))
    notice = None
    if sight in GOING:
        notice = find_notice(pod, node, snapshot.now, snapshot.job.spec.checkpoint.grace_period)
    return Situation(snapshot.now, sight, pod, node, _report_of_program(snapshot, pod), notice)


def _report_of_program(snapshot: Snapshot, pod: PodView) -> Report | None:
    """The newest report of the pod's program; None while its data is copied, for then there is no program yet."""
    report = snapshot.reports.get(pod.uid)
    return None if report is None or report.staging else report


def pod_of(snapshot: Snapshot, attempt: Attempt) -> PodView | None:
    """The pod of an attempt, of rank 0, or None. Once it was on a node, another pod with its name does not count."""
    known = attempt.pods[0].uid if attempt.pods else None
    born = births(attempt).get(0)
    mine = (pod for pod in snapshot.pods if pod.attempt == born and pod.rank == 0)
    return next((pod for pod in mine if known in (None, pod.uid)), None)


def _missing(attempt: Attempt, created: frozenset[int]) -> Sight:
    if attempt.number in created:
        return Sight.CREATED
    return Sight.ABSENT if attempt.state is AttemptState.ACQUIRING else Sight.VANISHED


def _had_node(attempt: Attempt) -> bool:
    return bool(attempt.pods and attempt.pods[0].node_uid)


def _seen(pod: PodView, node: NodeView | None, *, had_node: bool) -> Sight:
    if pod.ended:
        return Sight.ENDED
    if pod.node is None:
        return Sight.PENDING
    # A node that was never seen is not gone: the cache of nodes may lag behind the cache of pods. A node that was
    # registered again under its name may still run the pod, which says itself how it ends.
    if node is None and had_node:
        return Sight.NODE_GONE
    if node and not node.ready:
        return Sight.SILENT
    running = pod.trainer is not None and pod.trainer.running
    return Sight.RUNNING if running else Sight.PLACED


# --- several nodes ----------------------------------------------------------------------------------------------------


def _look_at_members(snapshot: Snapshot, attempt: Attempt, created: frozenset[int]) -> Situation:
    """The situation of an attempt with several nodes: that of the member that decides.

    The member that blocks the attempt most; ties go to a member in trouble, then to the lowest rank.
    """
    pods = pods_by_rank(snapshot.pods, attempt)
    missing = _missing(attempt, created)
    found = []
    for rank, born in births(attempt).items():
        if rank in pods:
            found.append(_look_at_member(snapshot, attempt, pods[rank]))
        else:
            found.append(Member(rank, born, missing if born == attempt.number else Sight.VANISHED))
    members = tuple(found)
    if attempt.state is AttemptState.DRAINING:
        decides = max(_leaving(attempt, members), key=_severity)
    else:
        decides = min(members, key=lambda member: (_severity(member), not _has_trouble(member)))
    report = _report_of_program(snapshot, pods[0]) if 0 in pods else None
    if report is not None and report.attempt != attempt.number:
        report = None  # an earlier attempt in the same pod sent it
    notices = [member.notice for member in members if member.notice]
    notice = min(notices, key=lambda one: one.deadline, default=None)
    besides = _besides(attempt, members) if decides.sight in (Sight.ENDED, Sight.SILENT) else frozenset[Sight]()
    return Situation(snapshot.now, decides.sight, decides.pod, decides.node, report, notice, members, besides)


def _besides(attempt: Attempt, members: tuple[Member, ...]) -> frozenset[Sight]:
    """What is seen of all members while the programs are to run; an attempt that leaves waits for the last one."""
    if attempt.state not in (AttemptState.STARTING, AttemptState.RUNNING):
        return frozenset()
    told = {Sight.ENDED} if any(member.over for member in members) else frozenset[Sight]()
    return frozenset(member.sight for member in members) | told


def _severity(member: Member) -> float:
    """Small for a member that stops all others, large for one that works."""
    told = member.sight is Sight.ENDED and member.pod is not None and not member.pod.ended
    return _TOLD if told else _ORDER.index(member.sight)


def _has_trouble(member: Member) -> bool:
    """True if the pod will never run: somebody has deleted it, or a container cannot start."""
    pod = member.pod
    if pod is None or member.sight not in (Sight.PENDING, Sight.PLACED):
        return False
    return pod.deleted_at is not None if member.sight is Sight.PENDING else find_start_trouble(pod) is not None


def _leaving(attempt: Attempt, members: tuple[Member, ...]) -> tuple[Member, ...]:
    """The members whose end is waited for: all, or those whose pods were deleted because their nodes go."""
    drain = attempt.drain
    if drain is None or drain.deleted_at is None or drain.kind is not EndKind.INTERRUPTION:
        return members
    return tuple(member for member in members if not member.goes_on) or members


def _look_at_member(snapshot: Snapshot, attempt: Attempt, pod: PodView) -> Member:
    """One member whose pod exists. Its attempt may be an earlier one: then its node was seen."""
    node = snapshot.cluster.nodes.get(pod.node) if pod.node else None
    report = snapshot.members.get(pod.uid)
    had_node = pod.attempt != attempt.number or attempt.state is not AttemptState.ACQUIRING
    sight = _seen(pod, node, had_node=had_node)
    if sight in GOING and node is None:
        sight = Sight.PENDING  # nobody can tell yet whether the node is there
    over = report is not None and report.attempt == attempt.number and report.verdict is not None
    notice = None
    if sight in GOING:
        notice = find_notice(pod, node, snapshot.now, snapshot.job.spec.checkpoint.grace_period)
        if over:
            sight = Sight.ENDED  # the program of this attempt has ended, the pod has not
    return Member(pod.rank, pod.attempt, sight, pod, node, report, notice, over)
