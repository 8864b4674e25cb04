"""Only one training with several nodes holds a part of a tier's nodes while it gets none of the rest.

Pods are created at once, because mostly there is room for all. If two trainings hold a part each, and both lack nodes,
the one whose claim is later gives its part back and waits in a line; a training that comes later waits behind both.
A claim counts only until its `acquireTimeout` is over, so nobody waits for a training that can never get its nodes.
A training that lost a node keeps the others for its acquireTimeout, and goes before all that have not started yet.
"""

from datetime import timedelta
from typing import Final

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.core.attempt.delays import backoff, spread
from holdfast.core.books import ledger
from holdfast.core.capacity.grid import acquire_timeout
from holdfast.core.draft import Draft, Role
from holdfast.core.observe.claims import Claim, claim_of, is_waiting
from holdfast.core.turn import Turn, take_turn

LOOK_EVERY: Final = timedelta(seconds=5)  # a change of another training usually wakes those that wait for it


def claim(draft: Draft, attempt: Attempt) -> Claim | None:
    """What the attempt holds, and what it lacks; None if it has all of its nodes, or needs only one."""
    if not is_waiting(attempt):
        return None
    return claim_of(draft.snapshot.job, draft.status, attempt, draft.snapshot.pods)


def first_ahead(turn: Turn) -> Claim | None:
    """The claim of another training that this attempt waits for before it creates its pods."""
    draft, attempt = turn.draft, turn.attempt
    mine = claim(draft, attempt) if draft.snapshot.rivals else None
    if mine is None or mine.is_warm:
        return None
    ahead = [rival for rival in _ahead(turn, mine) if rival.blocks(mine) or rival.is_next(turn.now)]
    if ahead:
        draft.wake_in((LOOK_EVERY + spread(LOOK_EVERY, draft.snapshot.job.metadata.uid)).total_seconds())
    return min(ahead, key=lambda rival: rival.order, default=None)


def _ahead(turn: Turn, mine: Claim) -> list[Claim]:
    """The claims of others on nodes of the same tier that come before this one."""
    cluster, now = turn.draft.snapshot.cluster, turn.now
    before = [rival for rival in turn.draft.snapshot.rivals if rival.order < mine.order and rival.counts(now)]
    return [rival for rival in before if rival.competes(mine, cluster)]


# --- giving a part back -----------------------------------------------------------------------------------------------


def must_give_way(turn: Turn) -> Claim | None:
    """The claim of another training if this one holds a part, both lack nodes, and the other one goes first."""
    draft, attempt = turn.draft, turn.attempt
    mine = claim(draft, attempt) if draft.snapshot.rivals else None
    if mine is None or mine.is_warm or not (mine.is_incomplete and mine.holds_part):
        return None
    draft.wake(turn.now + LOOK_EVERY)
    blocking = [rival for rival in _ahead(turn, mine) if rival.blocks(mine)]
    return min(blocking, key=lambda rival: rival.order, default=None)


def give_way(turn: Turn, rival: Claim) -> None:
    """Give all pods back, and keep the place in the line."""
    draft, attempt = turn.draft, ledger.hold(turn.attempt, turn.held(turn.now))
    again = draft.raise_attempt(attempt.tier, avoid=attempt.avoid_nodes)
    turn.replace_attempt(
        again.model_copy(
            update={
                "in_line_since": attempt.in_line_since or attempt.raised_at,
                "acquire_deadline": attempt.acquire_deadline,
                "given_back": attempt.given_back,
                **ledger.held_before(attempt),
            }
        )
    )
    draft.event("GaveWay", f"its nodes of tier {attempt.tier.name} are given back: {_who(draft, rival)}")


def gives_part_back(turn: Turn) -> bool:
    """True if the attempt holds a part of its nodes that it must give back once its tier has had its time.

    One that took pods over keeps them on its only tier as long as nobody else waits for nodes there: their programs
    start warm, and another set of pods would wait for the same node.
    """
    draft, attempt = turn.draft, turn.attempt
    mine = claim(draft, attempt)
    if mine is None or not mine.holds_part:
        return False
    if not mine.is_warm or len(draft.snapshot.grid) > 1:
        return True
    cluster = draft.snapshot.cluster
    return any(rival.competes(mine, cluster) for rival in draft.snapshot.rivals)


def pause_after_giving_back(draft: Draft, times: int) -> timedelta:
    """How long a training pauses after it gave nodes back: longer each time, and not the same for two trainings."""
    config, uid = draft.snapshot.config, draft.snapshot.job.metadata.uid
    return spread(backoff(config.backoff_base, config.backoff_limit, times), f"{uid} {times}")


# --- waiting ----------------------------------------------------------------------------------------------------------


def must_wait(turn: Turn) -> Claim | None:
    """The claim of another training if that one goes first, and this one is not in the line yet."""
    attempt = turn.attempt
    if attempt.in_line_since is not None or (attempt.retry_at and turn.now < attempt.retry_at):
        return None
    return first_ahead(turn)


def wait(turn: Turn, _rival: Claim) -> None:
    """Take a place in the line; its tier's acquireTimeout runs meanwhile."""
    attempt, snapshot = turn.attempt, turn.draft.snapshot
    limit = turn.now + acquire_timeout(attempt.tier, snapshot.cluster, snapshot.config)
    turn.set_attempt(in_line_since=attempt.raised_at, acquire_deadline=attempt.acquire_deadline or limit)


def waiting_for(draft: Draft) -> str | None:
    """What the current attempt waits for, in words, if it waits for its turn; otherwise None."""
    turn = take_turn(draft, Role.CURRENT)
    if turn is None or turn.attempt.state is not AttemptState.INTENDED or turn.attempt.in_line_since is None:
        return None
    rival = first_ahead(turn)
    return f"waits for its turn on tier {turn.attempt.tier.name}: {_who(draft, rival)}" if rival else None


def _who(draft: Draft, rival: Claim) -> str:
    """The other training. The name of a job in another namespace is not shown: its owner may be another tenant."""
    if rival.namespace == draft.snapshot.job.metadata.namespace:
        return f"job {rival.namespace}/{rival.job} takes nodes there now"
    return "a job of another namespace takes nodes there now"
