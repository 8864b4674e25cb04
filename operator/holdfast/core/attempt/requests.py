"""What people ask of a job by annotation: to move, and to save now. Each request has an id, and is handled once."""

from holdfast.api import names
from holdfast.api.attempt import AttemptState
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.placement import tier_to_start
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Situation


def request(draft: Draft, annotation: str, handled: str | None) -> tuple[str, str | None] | None:
    """Id and argument of a request that has not been handled, or None."""
    words = draft.snapshot.job.metadata.annotations.get(annotation, "")[:200].split()
    if not words or words[0] == handled:
        return None
    return words[0], words[1] if len(words) > 1 else None


def move_asked(draft: Draft, s: Situation) -> bool:
    """True if a person asked to move."""
    return request(draft, names.ANNOTATION_MOVE, draft.status.requests.move) is not None


def move(draft: Draft, s: Situation) -> None:
    """Move to the tier that was asked for, or away from this node; asked for a tier that is not there, say so."""
    asked = request(draft, names.ANNOTATION_MOVE, draft.status.requests.move)
    if asked is None:
        raise AssertionError("a move is made only if one was asked for")
    draft.set(requests=draft.status.requests.model_copy(update={"move": asked[0]}))
    tiers = draft.snapshot.grid
    tier = find_tier(tiers, asked[1]) if asked[1] else None
    if asked[1] and tier is None:
        known = ", ".join(tier.name for tier in tiers)
        draft.event("MoveRefused", f"no tier is named {asked[1]!r}; the grid has {known}", warning=True)
    elif draft.attempt.state in (AttemptState.STARTING, AttemptState.RUNNING):
        drain.drain_to_move(draft, s, asked[1])
    elif draft.attempt.state is not AttemptState.DRAINING and tiers:
        end.retarget(draft, s, tier or tier_to_start(draft), "MoveRequested")
    elif tier:  # it leaves already; only where to is open
        drain.redirect(draft, tier)


def checkpoint_asked(draft: Draft, s: Situation) -> bool:
    """True if a person asked for a checkpoint."""
    return request(draft, names.ANNOTATION_CHECKPOINT, draft.status.requests.checkpoint) is not None


def order_checkpoint(draft: Draft, s: Situation) -> None:
    """Order the running trainer to save."""
    asked = request(draft, names.ANNOTATION_CHECKPOINT, draft.status.requests.checkpoint)
    if asked is None:
        raise AssertionError("a checkpoint is ordered only if one was asked for")
    draft.order_checkpoint()
    draft.set(requests=draft.status.requests.model_copy(update={"checkpoint": asked[0]}))
    draft.event("CheckpointRequested", "a checkpoint was requested")


def checkpoint_order_done(s: Situation) -> bool:
    """True if the trainer acknowledged the open order to save, or there is nobody left to do it."""
    order = s.status.requests.checkpoint_order
    if order is None:
        return False
    alive = s.state in (AttemptState.RUNNING, AttemptState.DRAINING)
    return not alive or (s.report is not None and s.report.acknowledged >= order)


def close_checkpoint_order(draft: Draft, s: Situation) -> None:
    """The order to save is closed."""
    draft.set(requests=draft.status.requests.model_copy(update={"checkpoint_order": None}))
