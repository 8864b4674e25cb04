"""How far the data of trainer.data is, in the words that `kubectl get`, `watch` and `describe` show."""

from datetime import timedelta
from typing import Final

from holdfast.api.attempt import AttemptState
from holdfast.core.draft import Draft
from holdfast.core.observe.report import Staging
from holdfast.core.observe.situation import Situation

STAGE: Final = "Stage"  # the decision's action while the data is copied
REASON: Final = "StagingData"  # of the job's phase
STALE: Final = timedelta(seconds=90)  # a copy that is not heard of for so long is not told any more
_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_BEFORE_STEPS: Final = (AttemptState.STARTING, AttemptState.RUNNING)


def show_staging(draft: Draft, s: Situation) -> None:
    """Explain that the data is copied, and how far it is; another figure at most once per status_interval."""
    current, said = draft.status.current, draft.status.decision
    was_told = said is not None and said.action == STAGE
    if current is None or current.state not in _BEFORE_STEPS or current.departure:
        return
    found = _staging(draft, s)
    if any(not one.over for one in found):
        due = said.at + draft.snapshot.config.status_interval if said and was_told else None
        if due is None or draft.changed or (draft.is_due(due) and draft.snapshot.progress_slot):
            draft.explain(STAGE, _words(found, current.nodes))
    elif was_told and (found or _was_listened(draft)):
        where = f"node {s.pod.node}" if s.pod and current.nodes == 1 else f"{current.nodes} nodes"
        there = f"the data is there: {_size(sum(one.total for one in found))}; " if found else ""
        draft.explain("Run", f"{there}the program starts on {where} ({current.tier.name})")


def is_staging(draft: Draft) -> bool:
    """True if status says that the data of the current attempt is copied."""
    current, said = draft.status.current, draft.status.decision
    return bool(current and said and said.action == STAGE and current.state in _BEFORE_STEPS)


def _staging(draft: Draft, s: Situation) -> list[Staging]:
    """What the pods of the attempt told lately, each of its own data."""
    pods = [member.pod for member in s.members] if s.members else [s.pod]
    reports = [draft.snapshot.reports.get(pod.uid) for pod in pods if pod is not None]
    return [one.staging for one in reports if one and one.staging and not draft.is_due(one.received_at + STALE)]


def _was_listened(draft: Draft) -> bool:
    """True if this operator would have heard of a copy: it has taken reports for long enough."""
    since = draft.snapshot.listening_since
    return since is None or draft.is_due(since + STALE)


def _words(found: list[Staging], nodes: int) -> str:
    done, total = sum(one.bytes for one in found), sum(one.total for one in found)
    unit, size = next(one for one in _UNITS if total >= one[1] or one[1] == 1)
    shown = f"{done} of {total}" if size == 1 else f"{min(done, total) / size:.1f} of {total / size:.1f}"
    copying = sum(not one.over for one in found)
    where = f" on {copying} of {nodes} nodes" if nodes > 1 else ""
    return f"staging data{where}: {shown} {unit}"


def _size(total: int) -> str:
    unit, size = next(one for one in _UNITS if total >= one[1] or one[1] == 1)
    return f"{total / size:.1f} {unit}" if size > 1 else f"{total} bytes"
