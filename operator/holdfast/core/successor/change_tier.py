"""To another tier while training goes on: back to a better one, or to a dedicated one in time for the deadline.

A successor comes up on the tier that the policy has chosen, and the current attempt leaves once the successor waits at
the fence. A successor is the probe for capacity too: while a better tier is not up, or nothing is known of it, a
pending pod watches it. If that pod gets a node, the tier has to prove itself, or the node is given back.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.api.attempt import Attempt, AttemptState, EndKind, EndReason
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.placement import ask, view_of
from holdfast.core.capacity.choose import Answer
from holdfast.core.capacity.grid import find_tier
from holdfast.core.capacity.policy_input import Choice
from holdfast.core.draft import Draft
from holdfast.core.successor.depart import is_for_slow_node, is_ready, may_overlap
from holdfast.core.turn import Turn

LONGEST_STEP = timedelta(hours=1)  # limit of the wait for a step to end, however long two nodes may be paid for


class Move(NamedTuple):
    """What the policy chose, and the tier on which a successor is to come up."""

    choice: Choice
    tier: ProfileTier


def may_move(turn: Turn) -> Move | None:
    """The move if the policy chose another tier, or another tier would be better and is watched."""
    draft, current = turn.draft, turn.attempt
    if current.departure or turn.notice or not may_overlap(draft) or not _may_be_better(draft, current):
        return None
    if turn.report is None or turn.report.cannot_save:  # leaving would lose what is not saved
        return None
    answer = ask(draft)
    if answer is None or not (current.first_step is not None or answer.choice.urgent):
        return None
    tier = _tier_beside(draft, current, answer)
    wake_for_choice(draft, answer)
    if tier is None or draft.status.successor or (current.return_after and not draft.is_due(current.return_after)):
        return None
    return Move(answer.choice, tier)


def bring_up(turn: Turn, move: Move) -> None:
    """Raise a successor on the tier that was chosen, or on the one that is worth watching."""
    draft, reason = turn.draft, move.choice.reason
    draft.set(successor=draft.raise_attempt(move.tier))
    draft.explain("Run", reason)
    if move.choice.tier == move.tier.name:
        draft.event("TierChosen", reason)


class Switch(NamedTuple):
    """A successor that is ready on the tier that the policy chose."""

    choice: Choice
    successor: Attempt


def may_switch(turn: Turn) -> Switch | None:
    """The switch if its successor on the chosen tier waits at the fence, and leaving would lose nothing."""
    successor = turn.draft.status.successor
    if successor is None or not is_ready(turn.draft) or (turn.report and turn.report.cannot_save):
        return None
    if is_for_slow_node(turn.attempt, successor):
        return None
    answer = ask(turn.draft)
    return Switch(answer.choice, successor) if answer and answer.choice.tier == successor.tier.name else None


def switch(turn: Turn, found: Switch) -> None:
    """Order it to save and leave for its successor's tier. Nothing is urgent: a step may be longer than the grace."""
    draft, (choice, successor) = turn.draft, found
    overlap = draft.snapshot.job.spec.capacity.max_overlap
    deadline = max(drain.grace_end(draft), turn.now + min(overlap, LONGEST_STEP))
    reason = EndReason.KEEPING_DEADLINE if choice.urgent else EndReason.RETURNING
    turn.drain(reason, choice.reason, deadline, EndKind.STOPPED)
    text = f"{choice.reason}; attempt {successor.number} is ready: saving and leaving"
    draft.explain("Migrate", text)
    draft.event(reason, text)


# --- a successor while the current attempt need not leave -------------------------------------------------------------


def is_wanted(draft: Draft, current: Attempt, successor: Attempt) -> bool:
    """True if a successor without a node is to wait on: its tier was chosen, or is still the one worth watching."""
    answer, tier = ask(draft), successor.tier.name
    if answer is None or tier == current.tier.name:  # it was for a notice, or promised by a leader that died
        return False
    choice = answer.choice
    if choice.tier == tier:
        return True
    if choice.tier not in (None, current.tier.name) or not choice.watch or tier not in answer.better:
        return False
    here = view_of(answer, tier)
    out = here is not None and here.available is False
    return not out or answer.probe in (None, tier)  # after a wait without a node it makes room for a tier not tried yet


def asked_again_if_not_worth_it(turn: Turn) -> datetime | None:
    """When a successor's tier is asked again if the policy has not chosen it, and will not within maxOverlap."""
    draft, successor, answer = turn.draft, turn.attempt, ask(turn.draft)
    if answer is None or successor.scheduled_at is None or answer.choice.tier == successor.tier.name:
        return None
    again = _asked_again(draft, answer)
    return again if again > successor.scheduled_at + draft.snapshot.job.spec.capacity.max_overlap else None


def give_back(turn: Turn, again: datetime) -> None:
    """Give the node back; the tier is asked again when it may have proved itself, or at the next probe."""
    draft = turn.draft
    end.drop_successor(draft, EndReason.NOT_WORTH_IT)
    if current := draft.status.current:
        again = min(again, draft.now + draft.snapshot.config.probe_every)
        draft.set(current=current.model_copy(update={"return_after": again}))


# --- no time for a successor ------------------------------------------------------------------------------------------


def must_leave(turn: Turn) -> Choice | None:
    """The choice if the deadline asks for another tier, and no successor can be waited for.

    While a successor comes up, training goes on: the deadline calculation already includes that start.
    """
    draft, current, answer = turn.draft, turn.attempt, ask(turn.draft)
    if answer is None or not answer.choice.urgent or answer.choice.tier in (None, current.tier.name):
        return None
    if current.departure or turn.notice or (turn.report and turn.report.cannot_save) or not _was_heard(turn):
        return None
    return answer.choice if not may_overlap(draft) or not _may_wait(draft, current, answer.choice) else None


def _may_wait(draft: Draft, current: Attempt, choice: Choice) -> bool:
    """True if a successor is about to come up on the chosen tier, or will be raised now."""
    successor = draft.status.successor
    if successor is None:  # False if one was given up just now
        return current.return_after is None or draft.now >= current.return_after
    if successor.tier.name != choice.tier or successor.scheduled_at is None:
        return True
    on_node = successor.state in (AttemptState.STARTING, AttemptState.RUNNING)
    overlap = draft.snapshot.job.spec.capacity.max_overlap
    return not on_node or not draft.is_due(successor.scheduled_at + overlap)


def _was_heard(turn: Turn) -> bool:
    """True if the trainer reported, or was waited for: it has made progress while no operator listened."""
    snapshot = turn.draft.snapshot
    if turn.report is not None or snapshot.listening_since is None:
        return True
    return turn.draft.is_due(snapshot.listening_since + snapshot.config.unreported_after)


def leave(turn: Turn, choice: Choice) -> None:
    """Order it to save and leave; the next attempt starts on the tier that keeps the deadline."""
    draft, successor, text = turn.draft, turn.draft.status.successor, f"{choice.reason}; saving and leaving"
    turn.drain(EndReason.KEEPING_DEADLINE, choice.reason, drain.grace_end(draft), EndKind.STOPPED)
    if successor and successor.tier.name != choice.tier:
        end.drop_successor(draft, EndReason.NOT_NEEDED)
    drain.intend_successor(draft, tier_name=choice.tier)
    draft.explain("Migrate", text)
    draft.event("KeepingDeadline", text, warning=True)


# --- the policy's answer ----------------------------------------------------------------------------------------------


def _may_be_better(draft: Draft, current: Attempt) -> bool:
    """False where the policy need not be asked: under Ordered, no tier is better than the first of the grid."""
    tiers = draft.snapshot.grid
    first = not tiers or tiers[0].name == current.tier.name
    return not first or draft.snapshot.job.spec.capacity.policy != "Ordered"


def _tier_beside(draft: Draft, current: Attempt, answer: Answer) -> ProfileTier | None:
    """The tier on which a successor should come up, if any."""
    chosen = answer.choice.tier
    name = chosen if chosen not in (None, current.tier.name) else answer.probe
    return find_tier(draft.snapshot.grid, name) if name else None


def wake_for_choice(draft: Draft, answer: Answer) -> None:
    """Ask the policy again when it says so, and at every probe while a tier is worth watching."""
    draft.wake(asked_again_at(draft, answer))


def asked_again_at(draft: Draft, answer: Answer) -> datetime:
    """When the policy is asked again at the latest.

    A tier that is worth watching makes it no earlier if a pod waits already: that pod is the probe, and its node is
    seen at once.
    """
    at, alive = _asked_again(draft, answer), (draft.status.current, draft.status.successor)
    probed = any(attempt is not None and attempt.state is AttemptState.ACQUIRING for attempt in alive)
    watch = answer.better and answer.choice.watch and not probed
    return min(at, draft.now + draft.snapshot.config.probe_every) if watch else at


def _asked_again(draft: Draft, answer: Answer) -> datetime:
    return draft.now + timedelta(seconds=answer.choice.again_within)
