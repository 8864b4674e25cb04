"""SlowRank: the condition of a training that waits for one of its ranks, and what status says of such ranks."""

from holdfast.api.attempt import AttemptState, SlowRank
from holdfast.core.draft import Draft
from holdfast.core.observe.report import Report
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.status.conditions import is_true, set_condition
from holdfast.core.successor import slow_node
from holdfast.core.turn import Turn, take_turn

CONDITION = "SlowRank"


def show_slow_ranks(draft: Draft, s: Situation) -> None:
    """Say which ranks are slow, and what follows. Another figure alone is not worth a write."""
    turn, was_true = take_turn(draft), is_true(draft, CONDITION)
    report = s.report if turn and turn.attempt.state is AttemptState.RUNNING else None
    if was_true and report is None and s.sight is Sight.RUNNING:
        return  # an operator that has just started has no report yet
    if turn is None or report is None or not report.slow_ranks:
        if turn is not None and turn.attempt.slow and turn.attempt.state is AttemptState.RUNNING:
            turn.set_attempt(slow=())
        if was_true:
            set_condition(draft, CONDITION, "False", "NotSlow")
        return
    same = {one.rank for one in report.slow_ranks} == {one.rank for one in turn.attempt.slow}
    if was_true and same and not draft.changed:
        return
    text = _words(turn, report)
    if not was_true:
        draft.event(CONDITION, text, warning=True)
    turn.set_attempt(slow=_slow(turn, report))
    set_condition(draft, CONDITION, "True", "OthersWait", text)


def _slow(turn: Turn, report: Report) -> tuple[SlowRank, ...]:
    """Each rank once: a status that has a key twice is refused, and the job could not go on."""
    ranks = {one.rank: one for one in reversed(report.slow_ranks)}
    return tuple(
        SlowRank(rank=one.rank, pod=one.pod, node=slow_node.node_of(turn, one), times=f"{min(one.times, 999):.2f}")
        for one in report.slow_ranks
        if ranks[one.rank] is one
    )


def _words(turn: Turn, report: Report) -> str:
    worst = report.slow_ranks[0]
    where = f" on node {node}" if (node := slow_node.node_of(turn, worst)) else ""
    others = len(report.slow_ranks) - 1
    more = f", and {others} more {'is' if others == 1 else 'are'} slow" if others else ""
    return (
        f"rank {worst.rank}{where} works {worst.times:.2f} times as long in each step as the others, which wait for it "
        f"for {worst.share:.0%} of the time{more}; {slow_node.make_plan(turn, worst).words}"
    )
