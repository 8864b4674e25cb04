"""Several nodes: when all launchers are ready, the programs start, and meet at one address.

The address and the port come from the launcher of rank 0, so each start has a port of its own: a program of a later
attempt must not meet the store of an earlier one.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import MAX_AVOIDED, AttemptState, EndKind, EndReason, World
from holdfast.api.scalars import format_duration, format_ranks
from holdfast.core.attempt import silent_node
from holdfast.core.attempt.end import end_attempt
from holdfast.core.attempt.why_ended import End
from holdfast.core.books import ledger
from holdfast.core.draft import Role
from holdfast.core.observe.members import births, groups_of, inherited
from holdfast.core.observe.report import staging_at
from holdfast.core.observe.situation import Member, Sight
from holdfast.core.turn import Turn

SHOWN = 64  # characters of a list of ranks in a message


def is_ready(member: Member, attempt: int, now: datetime) -> bool:
    """True if the launcher can start the program of this attempt, has not started it yet, and still calls."""
    report = member.report
    return report is not None and report.ready and report.attempt < attempt and report.is_current(now)


def may_meet(turn: Turn) -> World | None:
    """The address and the port if every launcher is ready and the programs were not started yet.

    The address comes from rank 0's pod in the cluster, and never from what its launcher says. A successor that will
    take over pods of the current attempt waits until that one is over.
    """
    attempt = turn.attempt
    if attempt.nodes == 1 or attempt.world is not None:
        return None
    if turn.role is Role.SUCCESSOR and inherited(attempt):
        return None
    members = turn.situation.members
    lead, pod = members[0].report, members[0].pod
    if lead is None or pod is None or not (pod.address and lead.port):
        return None
    if not all(is_ready(member, attempt.number, turn.now) for member in members):
        return None
    return World(address=pod.address, port=lead.port)


def meet(turn: Turn, world: World) -> None:
    """Write the address down; the launchers get it once it is in status."""
    turn.set_attempt(world=world)
    text = f"all {turn.attempt.nodes} nodes are ready; the program starts on each of them"
    turn.draft.explain("Start", text)


def missing_ranks(turn: Turn) -> tuple[int, ...] | None:
    """The ranks whose launchers are not ready if their containers run, and they do not come for very long.

    The time counts while an operator takes their calls: a launcher that waits for one is not to blame. Neither is one
    that copies data before it gets ready: the time counts from its last report of that.
    """
    attempt = turn.attempt
    if attempt.nodes == 1 or attempt.world is not None:
        return None
    absent = tuple(one.rank for one in turn.situation.members if not is_ready(one, attempt.number, turn.now))
    copies = (staging_at(turn.draft.snapshot.reports, member.pod) for member in turn.situation.members)
    times = (attempt.scheduled_at, turn.draft.snapshot.listening_since, *copies)
    since = max((at for at in times if at), default=turn.now)
    return absent if absent and turn.draft.is_due(since + _limit(turn)) else None


def _limit(turn: Turn) -> timedelta:
    return turn.draft.snapshot.config.start_timeout


def give_up(turn: Turn, ranks: tuple[int, ...]) -> None:
    """Count an interruption: a launcher that runs and does not answer has lost its way to the operator.

    The interruption is that of the first of these nodes, so the next attempt leaves it.
    """
    text = (
        f"the launchers of rank {format_ranks(ranks)[:SHOWN]} did not get ready within "
        f"{format_duration(_limit(turn))}: they run, and do not reach the operator"
    )
    first = turn.situation.members[ranks[0]]
    end_attempt(turn.at(first), End(EndKind.INTERRUPTION, EndReason.START_TIMEOUT, text, infrastructure=True))


# --- members that are lost before the programs start ------------------------------------------------------------------


def lost_members(turn: Turn) -> tuple[int, ...] | None:
    """The ranks if pods that it took over end, or are about to, before its programs were started."""
    attempt = turn.attempt
    if attempt.world is not None or not inherited(attempt):
        return None
    gone = (Sight.NODE_GONE, Sight.VANISHED, Sight.ENDED)
    taken_over = [member for member in turn.situation.members if member.born != attempt.number]
    silent = silent_node.lost_ranks(turn)
    lost = tuple(one.rank for one in taken_over if one.sight in gone or one.notice or one.rank in silent)
    return lost or None


def replace_members(turn: Turn, ranks: tuple[int, ...]) -> None:
    """Create pods of its own for these ranks: that belongs to the same interruption."""
    attempt = turn.attempt
    born = {**births(attempt), **dict.fromkeys(ranks, attempt.number)}
    going = [one for one in turn.situation.members if one.rank in ranks and (one.notice or one.sight is Sight.SILENT)]
    nodes = [one.node.name for one in going if one.node]
    avoid = tuple(dict.fromkeys((*attempt.avoid_nodes, *nodes)))[:MAX_AVOIDED]
    turn.replace_attempt(ledger.take_off(attempt, turn.pods, ranks, turn.now))
    turn.set_attempt(
        state=AttemptState.INTENDED, members=groups_of(born, attempt.number), acquire_deadline=None, avoid_nodes=avoid
    )
    turn.draft.explain("Acquire", f"rank {format_ranks(ranks)[:SHOWN]} is lost too, before the program started")
