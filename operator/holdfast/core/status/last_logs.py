"""The pods of several nodes whose job is over or suspended end by themselves: the logs of a deleted pod are gone."""

from datetime import timedelta
from typing import Final

from holdfast.core.draft import Draft
from holdfast.core.observe.pods import PodView

END_WITHIN: Final = timedelta(seconds=30)  # then the pod is deleted: its node is paid for


def may_end_itself(draft: Draft, pod: PodView) -> bool:
    """True if the launcher in the pod is told to end, in place of a deletion.

    That ends a program that still runs too. So it must have lost another one: a program that can save gets SIGTERM.
    """
    status, report = draft.status, draft.snapshot.members.get(pod.uid)
    over_at = status.finished_at or status.suspended_at
    if status.current is not None or over_at is None or pod.ended or pod.deleted_at is not None:
        return False
    if report is None or report.attempt == 0:  # no program has run there
        return False
    told = draft.snapshot.members.values()
    has_lost_another = any(one.attempt == report.attempt and one.ready and one.verdict for one in told)
    if not (report.is_current(draft.now) and (report.ready or has_lost_another)):
        return False
    return not draft.is_due(over_at + END_WITHIN)
