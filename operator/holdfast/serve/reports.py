"""The newest report of every pod, and which changes in it need a decision."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from holdfast.api.status import MAX_METRICS
from holdfast.core.observe.report import Report, SavedCheckpoint, SlowRank, Staging
from holdfast.serve.body import FirstStep, ProgressBody, SlowRankBody

LONGEST_SAVE = 86_400.0  # seconds; a longer save in a report is cut to this
LONGEST_AGE = 366 * 86_400.0  # seconds; the same for the age of a first step
JobName = tuple[str, str]  # namespace, name
Wake = Callable[[JobName, bool], None]  # the second is True if the decision is urgent, False for progress only


class ReportBook:
    """Reports by pod UID, with the time of the operator's clock.

    `wake` is called at once if something changed that a decision may depend on. For progress only, it is called at most
    once per `interval` and job.
    """

    def __init__(self, wake: Wake, interval: timedelta) -> None:
        self._wake = wake
        self._interval = interval
        self._reports: dict[str, Report] = {}
        self._woken: dict[JobName, datetime] = {}
        self.saved: Callable[[SavedCheckpoint], None] = lambda saved: None
        self.received = 0

    def __len__(self) -> int:
        return len(self._reports)

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, Report]:
        """The newest report of each of these pods."""
        return {uid: report for uid in pod_uids if (report := self._reports.get(uid))}

    def keep_only(self, pod_uids: Iterable[str], jobs: Iterable[JobName]) -> None:
        """Forget all other pods and jobs."""
        for uid in self._reports.keys() - set(pod_uids):
            del self._reports[uid]
        for job in self._woken.keys() - set(jobs):
            del self._woken[job]

    def receive(self, job: JobName, body: ProgressBody, now: datetime, *, relayed: bool = False) -> Report:
        """Store a report and return it merged with the one before.

        `relayed`: the launcher sent it for a program without Holdfast's library. Once the library has reported for an
        attempt, a relayed report changes nothing. The writer of checkpoint.folder reports what the launcher does not
        know, so their reports are put together.
        """
        self.received += 1
        before = self._reports.get(body.pod_uid)
        if before is not None and before.attempt != body.attempt:
            before = None  # another attempt works in the same pod
        if before is not None and before.staging is not None and body.staging is None:
            before = None  # the program has started, and the report before was not of it
        if before is not None:
            was_library, is_library = not (before.relayed or before.folder), not (relayed or body.folder)
            if relayed and was_library:
                return before
            if was_library is not is_library:
                before = None
        report = self._reports[body.pod_uid] = _together(before, _merge(before, body, now), body, relayed=relayed)
        if report.checkpoint and before is not None and before.checkpoint != report.checkpoint:
            self.saved(report.checkpoint)
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
        (before.first_step is None and after.first_step is not None)
        or (after.fenced and not before.fenced)
        or after.acknowledged > before.acknowledged
        or after.checkpoint != before.checkpoint
        or (after.save_error is None) != (before.save_error is None)
        or (after.memory_warning is None) != (before.memory_warning is None)
        or after.state != before.state
        or (after.staging is not None and before.staging is not None and after.staging.over != before.staging.over)
        or after.resumed_step != before.resumed_step
        or {one.rank for one in after.slow_ranks} != {one.rank for one in before.slow_ranks}
    )


def _together(before: Report | None, report: Report, body: ProgressBody, *, relayed: bool) -> Report:
    """The report with what its sender does not know: the launcher knows no checkpoints, the writer knows no steps."""
    if before is None:
        return replace(report, relayed=relayed, folder=body.folder)
    relayed_once, has_folder = relayed or before.relayed, body.folder or before.folder
    report = replace(report, relayed=relayed_once, folder=has_folder, ignored_step=before.ignored_step)
    if relayed and before.folder:
        report = replace(report, save_error=before.save_error, memory_warning=before.memory_warning)
    if body.folder and before.relayed:
        report = replace(report, seconds_per_step=before.seconds_per_step)
    if report.folder and report.first_step is not None and report.first_step <= (report.resumed_step or 0):
        report = replace(report, resumed_step=None, ignored_step=report.resumed_step)
    return report


def _first_step(reported: FirstStep | None, resumed: int, step: int, now: datetime) -> tuple[int, datetime]:
    """The first step of the pod's own, and when it was trained.

    The trainer knows both. `step` and `now` count for a program that does not report them, or reports nonsense.
    """
    if reported is None or not resumed < reported.step <= step:
        return step, now
    return reported.step, now - timedelta(seconds=min(max(float(reported.seconds_ago), 0.0), LONGEST_AGE))


def _slow_rank(told: SlowRankBody) -> SlowRank:
    own, others, step = (
        min(max(float(text), 0.0), LONGEST_AGE) for text in (told.own_seconds, told.others_seconds, told.step_seconds)
    )
    return SlowRank(told.rank, told.pod, own, others, step)


def _merge(before: Report | None, body: ProgressBody, now: datetime) -> Report:
    """The report as decisions see it. A field that the new report leaves out keeps its last value."""
    old_step = before.step if before else None
    step = old_step if body.step is None else body.step
    grew = step is not None and (old_step is None or step > old_step)
    resumed = body.resumed_from.step if body.resumed_from else before.resumed_step if before else None
    without_step = before.put_back_without_step if before else False
    if body.folder and body.resumed_from is not None and body.resumed_from.step == 0:
        resumed, without_step = None, True
    first_step, first_step_at = (before.first_step, before.first_step_at) if before else (None, None)
    # Right after its start a trainer reports the step at which it resumed: another attempt trained that step.
    # A program that did not resume from the checkpoint that was put back begins at an earlier one.
    began_anew = before is not None and before.folder and step is not None and 0 < step < (resumed or 0)
    if first_step is None and step is not None and (step > (resumed or 0) or began_anew):
        first_step, first_step_at = _first_step(body.first_step, resumed or 0, step, now)
    acknowledged = max(body.acknowledged, before.acknowledged if before else 0)
    is_new = acknowledged > (before.acknowledged if before else 0)
    saved = body.checkpoint
    checkpoint = before.checkpoint if before else None
    if saved and (checkpoint is None or saved.step >= checkpoint.step):
        took = timedelta(seconds=min(max(float(saved.seconds), 0.0), LONGEST_SAVE))
        checkpoint = SavedCheckpoint(saved.step, saved.uri, saved.bytes, saved.committed_at, took)
    return Report(
        pod_uid=body.pod_uid,
        attempt=body.attempt,
        received_at=now,
        state=body.state,
        step=step,
        first_step=first_step,
        first_step_at=first_step_at,
        step_at=now if grew else before.step_at if before else None,
        steps=body.steps if body.steps is not None else before.steps if before else None,
        loss=body.loss if body.loss is not None else before.loss if before else None,
        samples_per_second=body.samples_per_second,
        seconds_per_step=body.seconds_per_step,
        data_wait=body.data_wait,
        peak_memory=body.peak_memory if body.peak_memory is not None else before.peak_memory if before else None,
        metrics=tuple(islice({**(dict(before.metrics) if before else {}), **body.metrics}.items(), MAX_METRICS)),
        fenced=body.fenced or bool(before and before.fenced),
        resumed_step=resumed,
        put_back_without_step=without_step,
        resume_note=body.resumed_from.note if body.resumed_from else before.resume_note if before else "",
        checkpoint=checkpoint,
        save_error=body.save_error or None,
        memory_warning=body.memory_warning or None,
        slow_ranks=tuple(map(_slow_rank, body.slow_ranks)),
        staging=Staging(body.staging.bytes, body.staging.total, body.staging.over) if body.staging else None,
        acknowledged=acknowledged,
        acknowledged_at=now if is_new else before.acknowledged_at if before else None,
    )
