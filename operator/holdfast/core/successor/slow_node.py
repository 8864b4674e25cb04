"""Away from a node on which a rank is slow: all ranks wait for the slowest one.

A successor comes up beside the attempt, away from that node, and the attempt leaves once the successor is ready. So the
training is never without nodes because of it. With several nodes the successor takes over the pods on the other nodes.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, EndKind, EndReason
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.placement import ask, shut_tiers
from holdfast.core.attempt.survivors import survivors
from holdfast.core.capacity.grid import find_tier
from holdfast.core.capacity.move_value import replacement_pays
from holdfast.core.observe.report import SlowRank
from holdfast.core.successor.change_tier import LONGEST_STEP
from holdfast.core.successor.depart import is_for_slow_node, is_ready, may_overlap
from holdfast.core.turn import Turn

AGAIN_AFTER: Final = timedelta(hours=24)


class Plan(NamedTuple):
    """What follows from a slow rank: the node to leave, None if it stays, and why, in words."""

    node: str | None
    words: str


def node_of(turn: Turn, slow: SlowRank) -> str | None:
    """The node of a slow rank; None if it is not known."""
    if turn.attempt.nodes == 1:
        return turn.pod.node if turn.pod else None
    pods = (member.pod for member in turn.situation.members if member.rank == slow.pod)
    return next((pod.node for pod in pods if pod), None)


def make_plan(turn: Turn, slow: SlowRank) -> Plan:
    """Whether the node of a slow rank is to be left.

    Not a second time within a day for the same pod of the training: if a rank is slow on two nodes, its work is more
    than that of the others, or its data comes later.
    """
    draft, node = turn.draft, node_of(turn, slow)
    if draft.snapshot.job.spec.failure.slow_ranks.action != "Replace":
        return Plan(None, "failure.slowRanks.action is Tell")
    if node is None:
        return Plan(None, "its node is not known")
    if _was_slow_elsewhere(turn, slow, node):
        return Plan(None, "it was slow on another node too, so its work is the reason, or its data")
    if not may_overlap(draft):
        return Plan(None, "no other attempt may come up beside this one")
    if find_tier(draft.snapshot.grid, turn.attempt.tier.name) is None:
        return Plan(None, "its tier is not in the grid any more")
    if turn.attempt.tier.name in shut_tiers(draft, (node,)):
        return Plan(None, "its tier has no other node")
    answer = ask(draft)
    view = answer.outlook.view if answer else None
    if view is None or view.here is None or not replacement_pays(view, view.here, slow.share):
        return Plan(None, "another node is not expected to save time in the rest of the training")
    return Plan(node, f"node {node} is left once another one is ready")


def _was_slow_elsewhere(turn: Turn, slow: SlowRank, node: str) -> bool:
    return any(
        record.reason == EndReason.SLOW_RANK and record.rank in (None, slow.pod) and record.node != node
        for record in turn.draft.status.history
        if turn.now - record.ended_at < AGAIN_AFTER
    )


def may_replace(turn: Turn) -> Plan | None:
    """The plan if a rank is slow, and leaving its node is expected to save time."""
    draft, current, report = turn.draft, turn.attempt, turn.report
    if report is None or not report.slow_ranks or report.cannot_save or current.departure or turn.notice:
        return None
    if draft.status.successor or (current.return_after and not draft.is_due(current.return_after)):
        return None
    plan = make_plan(turn, report.slow_ranks[0])
    if plan.node is None or (current.nodes > 1 and not survivors(draft, current, turn.situation, (plan.node,))):
        return None
    return plan


def replace(turn: Turn, plan: Plan) -> None:
    """Raise a successor away from the node, on the same tier."""
    draft, node = turn.draft, plan.node or ""
    turn.set_attempt(replaces=node)
    alone = turn.attempt.tier.name if turn.attempt.nodes == 1 else None
    drain.intend_successor(draft, tier_name=alone, avoid=(node,))
    text = f"a rank is slow on node {node}: another node comes up beside it"
    draft.explain("Run", text)
    draft.event("ReplacingSlowNode", text)


def is_fast_again(turn: Turn) -> bool:
    """True if a successor comes up because of a slow rank, and no rank on that node is slow any more."""
    report, node = turn.report, turn.attempt.replaces
    if node is None or report is None or turn.attempt.departure:
        return False
    return all(node_of(turn, slow) != node for slow in report.slow_ranks)


def stay(turn: Turn) -> None:
    """Train on where it is; the successor was for the slow rank alone."""
    draft, successor = turn.draft, turn.draft.status.successor
    if successor is not None and is_for_slow_node(turn.attempt, successor):
        end.drop_successor(draft, EndReason.NOT_NEEDED)
    text = f"no rank on node {turn.attempt.replaces} is slow any more: training goes on where it is"
    turn.set_attempt(replaces=None)
    draft.explain("Run", text)
    draft.event("SlowRankRecovered", text)


def may_leave(turn: Turn) -> Attempt | None:
    """The successor if it was raised because of a slow rank and waits at the fence, and leaving would lose nothing."""
    successor = turn.draft.status.successor
    if successor is None or not is_for_slow_node(turn.attempt, successor) or not is_ready(turn.draft):
        return None
    return None if turn.report is None or turn.report.cannot_save else successor


def leave(turn: Turn, successor: Attempt) -> None:
    """Order it to save and leave. Nothing is urgent: a step may be longer than the grace."""
    draft, node = turn.draft, turn.attempt.replaces
    overlap = draft.snapshot.job.spec.capacity.max_overlap
    deadline = max(drain.grace_end(draft), turn.now + min(overlap, LONGEST_STEP))
    slowest = _slowest_on(turn, node)
    turn.drain(EndReason.SLOW_RANK, f"a rank was slow on node {node}{slowest}", deadline, EndKind.STOPPED)
    text = f"a rank is slow on node {node}{slowest}; attempt {successor.number} is ready: saving and leaving"
    draft.explain("Migrate", text)
    draft.event(EndReason.SLOW_RANK, text)


def _slowest_on(turn: Turn, node: str | None) -> str:
    found = (one for one in turn.report.slow_ranks if node_of(turn, one) == node) if turn.report else ()
    return next((f" (rank {one.rank}, {one.times:.2f} times as long as the others)" for one in found), "")
