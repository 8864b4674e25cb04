"""What people request of a job by annotation: to move, and to save now. Each request has an id, and is handled once."""

from typing import Final, NamedTuple

from holdfast.api import names
from holdfast.api.attempt import AttemptState, EndReason
from holdfast.core.attempt import drain, end
from holdfast.core.attempt.placement import tier_to_start
from holdfast.core.capacity.grid import find_tier
from holdfast.core.draft import Draft
from holdfast.core.turn import Turn

NODE: Final = "node="  # before the name of a node in a request to leave it


class Request(NamedTuple):
    """A request that was not handled yet."""

    id: str
    argument: str | None


def _request(draft: Draft, annotation: str, handled: str | None) -> Request | None:
    words = draft.snapshot.job.metadata.annotations.get(annotation, "")[:200].split()
    if not words or words[0] == handled:
        return None
    return Request(words[0], words[1] if len(words) > 1 else None)


def move_request(turn: Turn) -> Request | None:
    """The request if a person requested a move."""
    return _request(turn.draft, names.ANNOTATION_MOVE, turn.draft.status.requests.move)


def move(turn: Turn, request: Request) -> None:
    """Move to the requested tier, or away from this node; refuse a tier that is not in the grid."""
    draft, state = turn.draft, turn.attempt.state
    draft.set(requests=draft.status.requests.model_copy(update={"move": request.id}))
    if turn.attempt.nodes > 1 and (request.argument is None or request.argument.startswith(NODE)):
        _leave_node(turn, (request.argument or NODE).removeprefix(NODE))
        return
    tiers = draft.snapshot.grid
    tier = find_tier(tiers, request.argument) if request.argument else None
    if not tiers:
        text = "the job has no tier to move to, since its capacity profile does not exist"
        draft.event("MoveRefused", text, warning=True)
    elif request.argument and tier is None:
        known = ", ".join(tier.name for tier in tiers)
        draft.event("MoveRefused", f"no tier is named {request.argument!r}; the grid has {known}", warning=True)
    elif state in (AttemptState.STARTING, AttemptState.RUNNING):
        drain.drain_to_move(turn, request.argument, turn.pod.node if turn.pod else None)
    elif state is not AttemptState.DRAINING:
        end.replace_waiting(turn, tier or tier_to_start(draft), EndReason.MOVE_REQUESTED)
    elif tier:  # it leaves already; only the next tier is open
        drain.redirect(draft, tier)


def _leave_node(turn: Turn, node: str) -> None:
    """Leave one of several nodes: its pod is replaced, and the other pods stay."""
    draft, used = turn.draft, [one.pod.node for one in turn.situation.members if one.pod and one.pod.node]
    if not node:
        text = f"the training has {turn.attempt.nodes} nodes: name the one to leave (--node), or a tier (--tier)"
    elif node not in used:
        text = f"no pod of the training is on a node named {node!r}"
    elif turn.attempt.state is AttemptState.DRAINING:
        text = f"the training saves and leaves already; request it again when it trains, if it still uses node {node}"
    elif turn.attempt.state is not AttemptState.RUNNING:
        text = f"the program does not run yet, so it cannot leave node {node}; request it again when it trains"
    else:
        drain.drain_to_move(turn, None, node)
        return
    draft.event("MoveRefused", text, warning=True)


def checkpoint_request(turn: Turn) -> Request | None:
    """The request if a person requested a checkpoint."""
    return _request(turn.draft, names.ANNOTATION_CHECKPOINT, turn.draft.status.requests.checkpoint)


def order_checkpoint(turn: Turn, request: Request) -> None:
    """Order the running trainer to save."""
    draft = turn.draft
    draft.order_checkpoint()
    draft.set(requests=draft.status.requests.model_copy(update={"checkpoint": request.id}))
    draft.event("CheckpointRequested", "a checkpoint was requested")


def is_checkpoint_order_done(draft: Draft) -> bool:
    """True if the trainer has read the open order to save, or no trainer is left to read it."""
    if (order := draft.status.requests.checkpoint_order) is None:
        return False
    current, report = draft.status.current, draft.situation().report
    alive = current is not None and current.state in (AttemptState.RUNNING, AttemptState.DRAINING)
    return not alive or (report is not None and report.acknowledged >= order)


def close_checkpoint_order(draft: Draft) -> None:
    """Close the order to save."""
    draft.set(requests=draft.status.requests.model_copy(update={"checkpoint_order": None}))
