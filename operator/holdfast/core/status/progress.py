"""Copy the trainer's reports into status.progress and status.checkpoint, at a bounded rate."""

from datetime import datetime, timedelta
from decimal import Decimal

from pydantic import ValidationError

from holdfast.api.attempt import EndKind
from holdfast.api.status import CheckpointStatus, MetricValue, Phase, Progress, TrackerRun
from holdfast.core.draft import Draft
from holdfast.core.made_from import has_other_goal
from holdfast.core.observe.report import Report, known_runs
from holdfast.core.observe.situation import Situation
from holdfast_protocol.figures import ROWS, Figures

FAR = 100 * 365 * 86_400  # seconds; a later ETA is not shown


def take_progress(draft: Draft, s: Situation) -> None:
    """Put the newest report into status: with any other change at once, otherwise once per status_interval."""
    _take_reports(draft, s)
    if draft.status.phase is Phase.COMPLETED:
        _take_last_step(draft)


def rest_progress(draft: Draft) -> None:
    """Take back what was foreseen while the program trained, if it does not train now: no report may come to say so."""
    progress = draft.status.progress
    resting = progress.model_copy(update={"eta": None} | vars(_figures(progress).at_rest()))
    if draft.status.phase not in (Phase.RUNNING, Phase.MIGRATING) and resting != progress:
        draft.set(progress=resting)


def _take_last_step(draft: Draft) -> None:
    """Put the step into status with which training was complete: its report may have come while no operator ran."""
    progress, history = draft.status.progress, reversed(draft.status.history)
    last = next((record.last_step for record in history if record.kind is EndKind.COMPLETED), None)
    if last is not None and last > progress.step:
        steps = progress.steps or draft.snapshot.job.spec.goal.steps
        changes = {"step": last, "steps": steps, "percent": _percent(last, steps), "eta": None}
        draft.set(progress=progress.model_copy(update=changes | vars(_figures(progress).at_rest())))


def _take_reports(draft: Draft, s: Situation) -> None:
    report = _newest(draft)
    progress = draft.status.progress
    if report is None or report.received_at == progress.updated_at:
        return
    changed = draft.changed
    due = (progress.updated_at or datetime.min.replace(tzinfo=draft.now.tzinfo)) + draft.snapshot.config.status_interval
    if not (changed or draft.is_due(due)):
        return
    if not changed and not draft.snapshot.progress_slot:
        return  # the job waits for a slot, and is decided again when it gets one
    draft.set(progress=_progress(draft, report, running=s.report is report), tracking=_tracking(draft, report))
    if saved := _checkpoint(report):
        draft.set(checkpoint=saved)
    current = draft.status.current
    if current and current.number == report.attempt and current.first_step is not None:
        # The clock of this process may have been set back since the report came.
        steps = {"last_step": report.step, "last_step_at": report.step_at and min(report.step_at, draft.now)}
        draft.set(current=current.model_copy(update=steps))


def _newest(draft: Draft) -> Report | None:
    """The newest report of the newest attempt; a report of an attempt that waits at the fence does not count.

    If the pod of a later attempt, which was further, is gone, an older pod that is kept for its logs does not count
    again. With several nodes, the pod of rank 0 reports for all.
    """
    leads = [pod for pod in draft.snapshot.pods if pod.rank == 0]
    found = [report for pod in leads if (report := draft.snapshot.reports.get(pod.uid))]
    if not found:
        return None
    trained = max((record.number for record in draft.status.history if record.first_step is not None), default=0)
    reports = [report for report in found if report.attempt >= trained]
    if current := draft.status.current:
        reports = [report for report in reports if report.attempt <= current.number or report.fenced]
    return max(reports, key=lambda report: (report.attempt, report.received_at), default=None)


def _progress(draft: Draft, report: Report, *, running: bool) -> Progress:
    spec, before = draft.snapshot.job.spec, draft.status.progress.steps
    is_other = has_other_goal(draft.status.current, spec)
    goal = report.steps or before if is_other else spec.goal.steps or report.steps
    step = report.step if report.step is not None else draft.status.progress.step
    if report.step is None and report.folder and report.checkpoint is not None:
        step = max(step, report.checkpoint.step or 0)  # the program tells no step, and has done these at least
    if draft.status.phase is Phase.COMPLETED:
        running = False
    figures = report.figures.after(_figures(draft.status.progress))
    return Progress(
        step=step,
        steps=goal,
        percent=_percent(step, goal),
        eta=_eta(report, step, goal) if running else None,
        metrics=_metrics(report) or draft.status.progress.metrics,
        updated_at=min(report.received_at, draft.now),
        **vars(figures if running else figures.at_rest()),
    )


def _figures(progress: Progress) -> Figures:
    """The figures in status."""
    return Figures(**{row.name: getattr(progress, row.name) for row in ROWS})


def _metrics(report: Report) -> tuple[MetricValue, ...]:
    return tuple(MetricValue(name=name, value=value) for name, value in sorted(report.metrics))


def _tracking(draft: Draft, report: Report) -> tuple[TrackerRun, ...]:
    """The runs in trackers. All attempts log into one, so it stays until a program tells another one."""
    known = {one.tracker: one.url for one in draft.status.tracking}
    return tuple(TrackerRun(tracker=tracker, url=url) for tracker, url in known_runs(known, dict(report.tracking)))


def _checkpoint(report: Report) -> CheckpointStatus | None:
    """The newest commit, None if there is none or it does not fit into status.

    A commit that does not fit is an error of the program and must not fail the job.
    """
    saved = report.checkpoint
    if saved is None:
        return None
    try:
        return CheckpointStatus(step=saved.step, uri=saved.uri, bytes=saved.bytes, committed_at=saved.committed_at)
    except ValidationError:
        return None


def _percent(step: int, goal: int | None) -> str | None:
    """One decimal, rounded down, so that 100.0 means done."""
    if not goal:
        return None
    tenths = min(step, goal) * 1000 // goal
    return f"{tenths // 10}.{tenths % 10}"


def _eta(report: Report, step: int, goal: int | None) -> datetime | None:
    """When the job reaches its goal at the present pace, or None if that is not known."""
    if not goal or report.figures.seconds_per_step is None:
        return None
    try:
        seconds = Decimal(report.figures.seconds_per_step) * max(goal - step, 0)
        at = report.received_at.replace(microsecond=0)
        return at + timedelta(seconds=int(seconds)) if 0 <= seconds < FAR else None
    except (ArithmeticError, ValueError):  # not a number, or beyond the calendar
        return None
