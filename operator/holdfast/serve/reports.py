"""What every pod has reported, and which changes in it need a decision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from holdfast.core.observe.report import Report, SavedCheckpoint, Silence, SlowRank, Staging, known_runs, view
from holdfast_protocol import report as protocol
from holdfast_protocol.report import FOLDER, MAX_METRICS, RELAY, FirstStep, ProgressReport, Saved, Sender

LONGEST_SAVE = 86_400.0  # seconds; a longer save in a report is cut to this
LONGEST_AGE = 366 * 86_400.0  # seconds; the same for the age of a first step
JobName = tuple[str, str]  # namespace, name
Wake = Callable[[JobName, bool], None]  # the second is True if the decision is urgent, False for progress only


class _Pod(NamedTuple):
    """The newest report of each sender of a pod in one attempt, and the view of them."""

    reports: dict[Sender, Report]
    view: Report


class ReportBook:
    """Reports by pod UID, with the time of the operator's clock.

    `wake` is called at once if something changed that a decision may depend on. For progress only, it is called at most
    once per `interval` and job.
    """

    def __init__(self, wake: Wake, interval: timedelta) -> None:
        self._wake = wake
        self._interval = interval
        self._pods: dict[str, _Pod] = {}
        self._woken: dict[JobName, datetime] = {}
        self.saved: Callable[[SavedCheckpoint], None] = lambda saved: None
        self.received = 0

    def __len__(self) -> int:
        return len(self._pods)

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, Report]:
        """The view of what each of these pods has reported."""
        return {uid: pod.view for uid in pod_uids if (pod := self._pods.get(uid))}

    def keep_only(self, pod_uids: Iterable[str], jobs: Iterable[JobName]) -> None:
        """Forget all other pods and jobs."""
        for uid in self._pods.keys() - set(pod_uids):
            del self._pods[uid]
        for job in self._woken.keys() - set(jobs):
            del self._woken[job]

    def receive(self, job: JobName, body: ProgressReport, now: datetime) -> Report:
        """Store a report in place of the one before from its sender, and return the view of the pod."""
        self.received += 1
        pod = self._pods.get(body.pod_uid)
        if pod is not None and body.attempt < pod.view.attempt:
            return pod.view  # it came late: a later attempt works in the same pod
        if pod is not None and pod.view.attempt != body.attempt:
            pod = None  # another attempt works in the same pod
        reports = pod.reports if pod else {}
        put_back = reports[FOLDER].resumed_step if FOLDER in reports else None
        last = reports.get(body.sender)
        reports[body.sender] = told = _after(last, body, now, put_back)
        before, report = pod.view if pod else None, view(reports)
        self._pods[body.pod_uid] = _Pod(reports, report)
        if told.checkpoint and last is not None and last.checkpoint != told.checkpoint:
            self.saved(told.checkpoint)
        if before is None or _urgent(before, report):
            self._woken[job] = now
            self._wake(job, True)
        elif now - self._woken.get(job, datetime.min.replace(tzinfo=now.tzinfo)) >= self._interval:
            self._woken[job] = now
            self._wake(job, False)
        return report


def _urgent(before: Report, after: Report) -> bool:
    """True if a decision may depend on the difference, not only the progress that people see."""
    return (
        (set(before.senders) != set(after.senders))
        or (before.first_step is None and after.first_step is not None)
        or (after.fenced and not before.fenced)
        or after.acknowledged > before.acknowledged
        or after.checkpoint != before.checkpoint
        or (after.save_error is None) != (before.save_error is None)
        or (after.storage_silence is None) != (before.storage_silence is None)
        or (after.memory_warning is None) != (before.memory_warning is None)
        or after.state != before.state
        or (after.staging is not None and before.staging is not None and after.staging.over != before.staging.over)
        or after.resumed_step != before.resumed_step
        or {one.rank for one in after.slow_ranks} != {one.rank for one in before.slow_ranks}
    )


def _first_step(reported: FirstStep | None, resumed: int, step: int, now: datetime) -> tuple[int, datetime]:
    """The first step of the pod's own, and when it was trained.

    The trainer knows both. `step` and `now` count for a program that does not report them, or reports nonsense.
    """
    if reported is None or not resumed < reported.step <= step:
        return step, now
    return reported.step, now - timedelta(seconds=min(max(float(reported.seconds_ago), 0.0), LONGEST_AGE))


def _silence(told: protocol.Silence | None, now: datetime) -> Silence | None:
    if told is None:
        return None
    return Silence(now - timedelta(seconds=min(max(float(told.seconds), 0.0), LONGEST_AGE)), told.why)


def _slow_rank(told: protocol.SlowRank) -> SlowRank:
    own, others, step = (
        min(max(float(text), 0.0), LONGEST_AGE) for text in (told.own_seconds, told.others_seconds, told.step_seconds)
    )
    return SlowRank(told.rank, told.pod, own, others, step)


def _after(before: Report | None, body: ProgressReport, now: datetime, put_back: int | None) -> Report:
    """The report of one sender as decisions see it. What it leaves out keeps its last value, but for a pace.

    `put_back`: the step that the writer of checkpoint.folder has put back.
    """
    last = before or Report(body.pod_uid, body.attempt, now, body.state, senders=(body.sender,))
    step = last.step if body.step is None else body.step
    resumed = body.resumed_from.step if body.resumed_from else last.resumed_step
    says_no_step = body.sender == FOLDER and body.resumed_from is not None and body.resumed_from.step == 0
    first_step, first_step_at = last.first_step, last.first_step_at
    if body.sender == RELAY and first_step == put_back:
        first_step = None  # told before it was known that this step was put back
    # Right after its start a trainer reports the step at which it resumed: another attempt trained that step.
    own = step if step != (put_back if body.sender == RELAY else resumed) else None
    if first_step is None and own and (body.sender == RELAY or own > (resumed or 0)):
        first_step, first_step_at = _first_step(body.first_step, resumed or 0, own, now)
    grew = step is not None and (last.step is None or step > last.step)
    return replace(
        last,
        received_at=now,
        state=body.state,
        step=step,
        first_step=first_step,
        first_step_at=first_step_at,
        step_at=now if grew else last.step_at,
        steps=last.steps if body.steps is None else body.steps,
        figures=body.figures.after(last.figures),
        metrics=tuple(islice({**dict(last.metrics), **body.metrics}.items(), MAX_METRICS)),
        fenced=body.fenced or last.fenced,
        resumed_step=None if says_no_step else resumed,
        put_back_without_step=last.put_back_without_step or says_no_step,
        resume_note=body.resumed_from.note if body.resumed_from else last.resume_note,
        checkpoint=_newest(last.checkpoint, body.checkpoint),
        save_error=body.save_error or None,
        storage_silence=_silence(body.storage_silence, now),
        memory_warning=body.memory_warning or None,
        slow_ranks=tuple(map(_slow_rank, body.slow_ranks)),
        tracking=known_runs(dict(last.tracking), body.tracking),
        staging=Staging(body.staging.bytes, body.staging.total, body.staging.over) if body.staging else None,
        acknowledged=max(body.acknowledged, last.acknowledged),
        acknowledged_at=now if body.acknowledged > last.acknowledged else last.acknowledged_at,
    )


def _newest(before: SavedCheckpoint | None, saved: Saved | None) -> SavedCheckpoint | None:
    """The newer one: reports may overtake each other. Without steps, the newest report counts."""
    if saved is None or (before is not None and saved.step is not None and saved.step < (before.step or 0)):
        return before
    took = timedelta(seconds=min(max(float(saved.seconds), 0.0), LONGEST_SAVE))
    return SavedCheckpoint(saved.step, saved.uri, saved.bytes, datetime.fromisoformat(saved.committed_at), took)
