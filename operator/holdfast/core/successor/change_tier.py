"""To another tier while training goes on: back to a better one, or to a dedicated one while there is time for it.

A successor comes up on the tier that the policy has chosen, and the current attempt leaves once it waits at the fence.
A successor is the probe for capacity too: while a better tier cannot be had, or nobody knows, a pending pod watches it.
If it gets a node, that tier has to prove itself, or the node is given back.
"""

from datetime import datetime, timedelta

from holdfast.api.attempt import Attempt, AttemptState, EndKind
from holdfast.api.profile import ProfileTier
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.placement import ask, view_of
from holdfast.core.capacity.choose import Answer
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Situation
from holdfast.core.successor import depart

LONGEST_STEP = timedelta(hours=1)  # nobody waits longer for a step to end, however long two nodes may be paid for


def may_move(draft: Draft, s: Situation) -> bool:
    """True if a successor is to come up on another tier than that of the attempt that trains."""
    current = draft.attempt
    if current.departure or s.notice or not depart.may_overlap(draft) or not _may_be_better(draft, current):
        return False
    if s.report is None or s.report.save_error:  # leaving would lose what is not saved
        return False
    answer = ask(draft)
    tier = _beside(draft, answer) if answer else None
    if answer is None or not (current.first_step is not None or answer.choice.urgent):
        return False
    wake_for_choice(draft, answer)
    if tier is None or draft.status.successor:
        return False
    if current.return_after and s.now < current.return_after:
        draft.wake(current.return_after)
        return False
    return True


def bring_up(draft: Draft, s: Situation) -> None:
    """Raise a successor on the tier that was chosen, or on the one that is worth watching."""
    answer = ask(draft)
    tier = _beside(draft, answer) if answer else None
    if answer is None or tier is None:
        raise AssertionError("a successor comes up on a tier that was chosen")
    draft.set(successor=draft.raise_attempt(tier))
    draft.say("Run", answer.choice.reason)
    if answer.choice.tier == tier.name:
        draft.event("TierChosen", answer.choice.reason)


def chosen(draft: Draft) -> bool:
    """True if the policy wants the job on the tier of its successor."""
    answer, successor = ask(draft), draft.status.successor
    return answer is not None and successor is not None and answer.choice.tier == successor.tier.name


def may_switch(draft: Draft, s: Situation) -> bool:
    """True if the successor waits at the fence, the policy wants the job there, and leaving would lose nothing."""
    return depart.awaited(draft) and not (s.report and s.report.save_error) and chosen(draft)


def switch(draft: Draft, s: Situation) -> None:
    """Save and leave for the tier of the successor. Nothing presses: a step may be longer than the grace."""
    answer, successor = ask(draft), draft.status.successor
    if successor is None or answer is None:
        raise AssertionError("one switches to a successor that was chosen")
    overlap = draft.snapshot.job.spec.capacity.max_overlap
    deadline = max(drain.grace_end(draft, s.now), s.now + min(overlap, LONGEST_STEP))
    reason = "KeepingDeadline" if answer.choice.urgent else "Returning"
    draft.drain(reason, answer.choice.reason, deadline, EndKind.STOPPED)
    text = f"{answer.choice.reason}; attempt {successor.number} is ready: saving and leaving"
    draft.say("Migrate", text)
    draft.event(reason, text)


# --- a successor while nothing presses --------------------------------------------------------------------------------


def wanted(draft: Draft) -> bool:
    """True if a successor that has no node is to wait on: its tier was chosen, or is still the one worth watching."""
    answer, current, attempt = ask(draft), draft.status.current, draft.attempt
    if answer is None or current is None:
        return False
    choice, tier = answer.choice, attempt.tier.name
    if tier == current.tier.name:  # it was for a notice, or promised by a leader that died
        return False
    if choice.tier == tier:
        return True
    if choice.tier not in (None, current.tier.name) or not choice.watch or tier not in answer.better:
        return False
    here = view_of(answer, tier)
    out = here is not None and here.available is False
    return not out or answer.probe in (None, tier)  # one that waits in vain gives way to one that nobody has asked


def not_worth_its_node(draft: Draft, s: Situation) -> bool:
    """True if the successor has a node, and its tier will not have proved itself as long as two may be paid for."""
    answer, attempt = ask(draft), draft.attempt
    if answer is None or attempt.scheduled_at is None or chosen(draft):
        return False
    limit = attempt.scheduled_at + draft.snapshot.job.spec.capacity.max_overlap
    return _later(draft, answer) > limit


def give_back(draft: Draft, s: Situation) -> None:
    """Its node goes back; the tier is asked again when it may have proved itself, or for the next probe."""
    answer, current = ask(draft), draft.status.current
    if answer is None or current is None:
        raise AssertionError("a successor follows an attempt")
    again = min(_later(draft, answer), draft.now + draft.snapshot.config.probe_every)
    end.drop_successor(draft, "NotWorthIt")
    draft.set(current=current.model_copy(update={"return_after": again}))


# --- no time for a successor ------------------------------------------------------------------------------------------


def must_leave(draft: Draft, s: Situation) -> bool:
    """True if the job has to go to another tier for its deadline, and no successor can be waited for.

    As long as one comes up beside it, that is no reason to stop: the start that the deadline was reckoned with runs.
    """
    current, answer = draft.attempt, ask(draft)
    if answer is None or not answer.choice.urgent or answer.choice.tier in (None, current.tier.name):
        return False
    if current.departure or s.notice or (s.report and s.report.save_error) or not _heard(draft, s):
        return False
    successor = draft.status.successor
    if not depart.may_overlap(draft):
        return True
    if successor is None:  # one was given up just now
        return current.return_after is not None and s.now < current.return_after
    overlapping = successor.scheduled_at is not None and successor.tier.name == answer.choice.tier
    return overlapping and _overlap_over(draft, successor)


def _heard(draft: Draft, s: Situation) -> bool:
    """True if the trainer was heard, or has been waited for: while no operator was there it has come further."""
    if s.report is not None or draft.snapshot.listening_since is None:
        return True
    at = draft.snapshot.listening_since + draft.snapshot.config.unreported_after
    if s.now < at:
        draft.wake(at)
    return s.now >= at


def leave(draft: Draft, s: Situation) -> None:
    """Save and leave; the next attempt starts on the tier that keeps the deadline."""
    answer = ask(draft)
    if answer is None:
        raise AssertionError("only a policy says that it is urgent")
    choice, successor = answer.choice, draft.status.successor
    draft.drain("KeepingDeadline", choice.reason, drain.grace_end(draft, s.now), EndKind.STOPPED)
    if successor and successor.tier.name != choice.tier:
        end.drop_successor(draft, "NotNeeded")
    drain.intend_successor(draft, tier_name=choice.tier)
    draft.say("Migrate", f"{choice.reason}; saving and leaving")
    draft.event("KeepingDeadline", f"{choice.reason}; saving and leaving", warning=True)


def _may_be_better(draft: Draft, current: Attempt) -> bool:
    """False where the policy need not be asked: in the order of the grid, nothing is better than its first tier."""
    tiers = draft.snapshot.grid
    first = not tiers or tiers[0].name == current.tier.name
    return not first or draft.snapshot.job.spec.capacity.policy != "Ordered"


def _beside(draft: Draft, answer: Answer) -> ProfileTier | None:
    """The tier on which a successor should come up, if any."""
    here = draft.status.current.tier.name if draft.status.current else None
    name = answer.choice.tier if answer.choice.tier not in (None, here) else answer.probe
    return find_tier(draft.snapshot.grid, name) if name else None


def wake_for_choice(draft: Draft, answer: Answer) -> None:
    """Ask the policy again when it says so, and as often as tiers are probed while one is worth watching."""
    draft.wake(asked_again_at(draft, answer))


def asked_again_at(draft: Draft, answer: Answer) -> datetime:
    """When the policy is asked again at the latest.

    No earlier for a tier that is worth watching if a pod waits already: that is the probe, and heard of when it gets a
    node.
    """
    at, alive = _later(draft, answer), (draft.status.current, draft.status.successor)
    probed = any(attempt is not None and attempt.state is AttemptState.ACQUIRING for attempt in alive)
    watch = answer.better and answer.choice.watch and not probed
    return min(at, draft.now + draft.snapshot.config.probe_every) if watch else at


def _later(draft: Draft, answer: Answer) -> datetime:
    return draft.now + timedelta(seconds=answer.choice.again_within)


def _overlap_over(draft: Draft, successor: Attempt) -> bool:
    if successor.state not in (AttemptState.STARTING, AttemptState.RUNNING) or successor.scheduled_at is None:
        return False
    at = successor.scheduled_at + draft.snapshot.job.spec.capacity.max_overlap
    if draft.now < at:
        draft.wake(at)
    return draft.now >= at
