"""The members of a training on several nodes: its pods, one for each rank, and what their launchers tell.

A member outlives attempts: when one member is lost, the others keep their pods, and the next attempt takes them over.
So the number in a pod's name says which attempt created the pod, not which attempt it works for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from holdfast.api.attempt import MAX_GROUPS, Attempt, AttemptState, MemberGroup
from holdfast.api.scalars import format_ranks, parse_ranks
from holdfast.core.observe.pods import PodView
from holdfast_protocol.verdict import Verdict

# A call waits for 60 s at most, and after an error the launcher waits for less than 25 s.
CALLS_AGAIN: Final = timedelta(seconds=90)
WAITING: Final = (AttemptState.INTENDED, AttemptState.ACQUIRING)


@dataclass(frozen=True, slots=True)
class LauncherView:
    """What the launcher of one pod told last. Times are of the operator's clock."""

    attempt: int  # whose program it started last; 0 if it has not started any
    ready: bool  # no program runs, and the next one can start
    received_at: datetime
    port: int = 0  # on which the program of rank 0 can listen
    verdict: Verdict | None = None  # how that program ended; None while it runs
    ended_at: datetime | None = None  # when the verdict came first
    asked_at: datetime | None = None  # when it was asked for a sign of life; None once it has answered
    imports: tuple[str, ...] = ()  # libraries that another process for the program can import before it starts

    def is_current(self, now: datetime) -> bool:
        """True if its launcher still calls: a launcher whose call was answered calls again."""
        return now - self.received_at < CALLS_AGAIN


def known_imports(reports: Iterable[LauncherView]) -> tuple[str, ...]:
    """Libraries that a process for the program can import before it starts, as one of its launchers has found."""
    return next((report.imports for report in reports if report.imports), ())


def births(attempt: Attempt) -> Mapping[int, int]:
    """By rank: the number of the attempt that created the pod."""
    return _births(tuple([(group.born, group.ranks) for group in attempt.members]), attempt.number, attempt.nodes)


@lru_cache(maxsize=4096)
def _births(groups: tuple[tuple[int, str], ...], number: int, nodes: int) -> Mapping[int, int]:
    found = dict.fromkeys(range(nodes), number)
    for born, ranks in groups:
        found.update(dict.fromkeys([rank for rank in parse_ranks(ranks) if rank < nodes], born))
    return found


def is_member(attempt: Attempt | None, pod: PodView) -> bool:
    """True if the pod is one of the attempt's, by its name: another pod may have had the name before."""
    if attempt is None:
        return False
    if attempt.nodes == 1 and not attempt.members:
        return pod.attempt == attempt.number
    return births(attempt).get(pod.rank) == pod.attempt


def groups_of(born: Mapping[int, int], number: int) -> tuple[MemberGroup, ...]:
    """The groups as status has them, oldest first; empty if the attempt with this number creates all pods itself."""
    if all(one == number for one in born.values()):
        return ()
    return tuple(
        MemberGroup(born=one, ranks=format_ranks(rank for rank, by in born.items() if by == one))
        for one in sorted(set(born.values()))
    )


def few_enough(kept: dict[int, int]) -> dict[int, int]:
    """`kept` if status has room for its groups and one more; otherwise nothing, so that all pods are created again.

    `kept` has the number of the attempt that created each pod that the next attempt is to take over, by rank.
    """
    return kept if len(set(kept.values())) < MAX_GROUPS else {}


def fresh_ranks(attempt: Attempt) -> tuple[int, ...]:
    """The ranks whose pods this attempt creates itself."""
    return tuple(rank for rank, born in births(attempt).items() if born == attempt.number)


def inherited(attempt: Attempt) -> int:
    """How many pods the attempt took over from earlier attempts."""
    return attempt.nodes - len(fresh_ranks(attempt)) if attempt.members else 0


def is_waiting(attempt: Attempt | None) -> bool:
    """True if the attempt has several nodes, and does not have all of them yet."""
    return attempt is not None and attempt.nodes > 1 and attempt.state in WAITING


def node_time(
    attempt: Attempt, scheduled_at: datetime | None, until: datetime, *, since: datetime | None = None
) -> timedelta:
    """The time that an attempt had nodes, summed over its nodes; only the part after `since`, if given.

    Pods of its own count from `scheduled_at`, when the last of them got a node; while one lacks a node, those of
    `holds` count. Pods that it took over count from the moment at which it took them over. What they had before is in
    `held_for`.
    """
    total, kept = attempt.held_for if since is None else timedelta(0), inherited(attempt)
    placed = scheduled_at and not is_waiting(attempt)
    own = (attempt.nodes - kept, scheduled_at) if placed else (attempt.holds, attempt.held_since)
    for count, begun in (own, (kept, attempt.inherited_at)):
        if begun is not None:
            total += count * max(until - max(begun, since or begun), timedelta(0))
    return total


def paid_nodes(attempt: Attempt) -> int:
    """How many nodes the attempt pays for now. Pods that it is to take over are paid for by the attempt before it."""
    kept = inherited(attempt)
    own = attempt.nodes - kept if attempt.scheduled_at and not is_waiting(attempt) else attempt.holds
    return own + (kept if attempt.inherited_at else 0)


def holding(attempt: Attempt, pods: Iterable[PodView | None]) -> tuple[int, datetime | None]:
    """`holds` and `heldSince` of an attempt that has not got all of its nodes; `pods` are those of its members."""
    mine = [pod for pod in pods if pod and pod.attempt == attempt.number and pod.node and not pod.ended]
    since = attempt.scheduled_at or attempt.raised_at
    begun = [max(pod.scheduled_at, since) for pod in mine if pod.scheduled_at]
    if not begun:
        return 0, None
    first = min(begun)
    return len(begun), first + sum((at - first for at in begun), timedelta(0)) / len(begun)


def held_time(
    attempt: Attempt, pods: Iterable[PodView | None], until: datetime, *, since: datetime | None = None
) -> timedelta:
    """The node time, up to `until`, of pods that the attempt created, and that is in no sum yet; only the part after
    `since`, if given.
    """
    since = max(attempt.scheduled_at or attempt.raised_at, since or attempt.raised_at)
    begun = (pod.scheduled_at for pod in pods if pod and pod.attempt == attempt.number and pod.node)
    return sum((max(until - max(at, since), timedelta(0)) for at in begun if at), timedelta(0))


def pods_by_rank(pods: Iterable[PodView], attempt: Attempt) -> dict[int, PodView]:
    """The attempt's pods, as far as they exist."""
    born = births(attempt)
    return {pod.rank: pod for pod in pods if born.get(pod.rank) == pod.attempt}
