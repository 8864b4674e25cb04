"""StartBlocked: the condition of a job whose pod has a node, and whose containers cannot start."""

from holdfast.api.attempt import AttemptRecord, AttemptState, EndKind
from holdfast.core.attempt.stuck import STUCK
from holdfast.core.draft import Draft
from holdfast.core.observe.situation import Sight, Situation
from holdfast.core.observe.start_trouble import StartTrouble, find_start_trouble
from holdfast.core.status.conditions import find_condition, set_condition

CONDITION = "StartBlocked"


def trouble_of(draft: Draft, s: Situation) -> StartTrouble | None:
    """What keeps the current attempt from starting on its node, None if nothing does."""
    current = draft.status.current
    if current is None or current.state is not AttemptState.STARTING or s.sight is not Sight.PLACED or s.pod is None:
        return None
    return find_start_trouble(s.pod, draft.snapshot.inspections.get(s.pod.uid))


def _ended_by_trouble(draft: Draft) -> AttemptRecord | None:
    """The attempt before, if it ended because a container could not start, and the next attempt waits to begin."""
    status = draft.status
    if status.current is None or status.current.state is not AttemptState.INTENDED or not status.history:
        return None
    last = status.history[-1]
    return last if last.kind is EndKind.INTERRUPTION and last.reason in STUCK else None


def inspect_unprepared(draft: Draft, s: Situation) -> None:
    """Read the warnings about a pod whose volumes or network are not there in time: its status does not say why."""
    current, config = draft.status.current, draft.snapshot.config
    if current is None or current.state is not AttemptState.STARTING or s.sight is not Sight.PLACED or s.pod is None:
        return
    began = any(one.ended or one.running for one in s.pod.init)
    if not (s.pod.prepared or began):
        draft.inspect(s.pod, (current.scheduled_at or s.now) + config.prepare_grace, every=config.inspect_every)


def show_start_trouble(draft: Draft, s: Situation) -> None:
    """Say what keeps the current attempt from starting. The condition stays until a trainer of the job runs."""
    known, current, trouble = find_condition(draft, CONDITION), draft.status.current, trouble_of(draft, s)
    blocked = known is not None and known.status == "True"
    if trouble:
        same = blocked and known is not None and known.reason == trouble.reason
        if same and not draft.changed:
            return  # every try may fail with other words: that alone is not worth a write
        set_condition(draft, CONDITION, "True", trouble.reason, trouble.message)
        draft.explain("Wait", trouble.message)
        if not same:
            draft.event(CONDITION, trouble.message, warning=True)
    elif not blocked and (before := _ended_by_trouble(draft)):
        set_condition(draft, CONDITION, "True", before.reason, before.message)
    elif blocked and (s.sight is Sight.RUNNING or (current is None and draft.status.suspended_at)):
        started = s.sight is Sight.RUNNING
        set_condition(draft, CONDITION, "False", "Started" if started else "Suspended")
