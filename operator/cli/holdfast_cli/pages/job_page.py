"""The page of one job: what it is, how far it is, and what it has cost to get there."""

from collections.abc import Sequence
from typing import Final

from holdfast.core.books.ledger import counts_steps
from holdfast_cli.jobs import costs, view
from holdfast_cli.pages import attempts, curves, job_sections, stored_job
from holdfast_cli.pages.fragments import Figure, figures, pill
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.page import Chart, Fragment, Page
from holdfast_cli.pages.pictures import progress_bar
from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Markup, Template

_HTML: Final = Template(__name__)


def job_page(inputs: JobInputs) -> Page:
    """All that is known, from the state to the events. Parts of which nothing is known are empty fragments."""
    drawn = curves.charts([curves.Run(inputs.history)]) if inputs.history else []
    fragments = [
        Fragment("heading", _heading(inputs)),
        Fragment("progress", progress(inputs)),
        Fragment("curves", _curves(inputs, drawn)),
        Fragment("timeline", job_sections.timeline_section(inputs)),
        Fragment("why", job_sections.why(inputs)),
        Fragment("attempts", attempts.attempts(inputs)),
        Fragment("hangs", attempts.hangs(inputs)),
        Fragment("cost", job_sections.cost(inputs)),
        Fragment("checkpoints", job_sections.checkpoints(inputs)),
        Fragment("conditions", job_sections.conditions(inputs)),
        Fragment("events", job_sections.events(inputs)),
    ]
    return Page(inputs.name, fragments, drawn)


def _heading(inputs: JobInputs) -> Markup:
    """Name, phase, reason, what happens next, and what could not be read."""
    job, now = inputs.job, inputs.now
    phase, runs = Markup(), []
    if job is None:
        namespace, _, name = inputs.name.rpartition("/") if inputs.checkpoints else ("", "", inputs.name)
        lead = "The job is not in the cluster any more, or was not asked for. This is what its storage tells."
        following = ""
        meta = [inputs.place] if inputs.place != name else []
    else:
        status, namespace, name = job.status, job.metadata.namespace, job.metadata.name
        phase = pill(view.phase_text(status.phase))
        lead = status.decision.message if status.decision else status.reason or ""
        following = view.what_next(job)
        runs = [(run.tracker, run.url) for run in status.tracking]
        meta = [f"created {formats.ago(job.metadata.creation_timestamp, now)}", f"image {job.spec.trainer.image}"]
        meta += [inputs.place] if inputs.place else []
    meta.append(f"as of {formats.moment(now)} {now.astimezone():%Z}")
    return _HTML.heading(
        namespace=namespace,
        name=name,
        phase=phase,
        lead=lead,
        next=following,
        meta=" · ".join(meta),
        runs=runs,
        notes=inputs.notes,
    )


def progress(inputs: JobInputs) -> Markup:
    """The large figures."""
    bar, metrics = Markup(), []
    if inputs.job is not None:
        share = view.fraction(inputs.job)
        bar = Markup() if share is None else progress_bar(share)
        metrics = [Figure(one.name, view.loss_text(one.value)) for one in inputs.job.status.progress.metrics]
    return _HTML.progress(bar=bar, found=figures(job_figures(inputs)), metrics=figures(metrics))


def job_figures(inputs: JobInputs) -> list[Figure]:
    """Name, value, and a line below: from the object of the job."""
    job, now = inputs.job, inputs.now
    if job is None:
        return stored_job.figures_of(inputs)
    status = job.status
    ledger, saved, forecast = status.ledger, status.checkpoint, status.forecast
    step, _, goal = view.steps(job).partition(" / ")
    found = [Figure("Step", step, f"of {goal}, {view.percent(job)}" if goal else "")]
    if status.is_over:
        took = status.finished_at - status.started_at if status.finished_at and status.started_at else None
        found.append(Figure("Took", formats.span(took), f"ended {formats.moment(status.finished_at)}"))
    else:
        found.append(
            Figure("Time left", view.eta(job, now), formats.moment(status.progress.eta) if status.progress.eta else "")
        )
    found.append(
        Figure(
            "Loss", view.loss_text(status.progress.loss), view.speed(job) if status.progress.samples_per_second else ""
        )
    )
    where = ", ".join(filter(None, (status.tier, status.node)))
    found.append(Figure("Attempt", view.attempt_number(job), where))
    lost = (
        f"{formats.count(ledger.steps_lost)} steps done twice"
        if status.restarts.interruptions and counts_steps(status)
        else ""
    )
    found.append(Figure("Interruptions", formats.count(status.restarts.interruptions), lost))
    if saved:
        found.append(Figure("Checkpoint", view.checkpoint_words(saved), formats.ago(saved.committed_at, now)))
    if (goodput := formats.number(ledger.goodput)) is not None:
        found.append(Figure("Goodput", f"{goodput:.1%}", "of the time in steps that were kept"))
    if ledger.spent:
        more = f"{formats.money(forecast.cost)} expected in the end" if forecast.cost else ""
        found.append(Figure("Spent", formats.money(ledger.spent), more))
    if saving := costs.saving(ledger):
        name, than = ("Saved", f"({saving.share:.0%}) against") if saving.amount >= 0 else ("Spent more", "than on")
        found.append(Figure(name, formats.money(abs(saving.amount)), f"{than} dedicated only"))
    if forecast.slack is not None and not status.is_over:
        deadline = job.spec.capacity.deadline
        found.append(Figure("Slack", view.slack_text(forecast), f"until the deadline {formats.moment(deadline)}"))
    return found


def _curves(inputs: JobInputs, drawn: Sequence[Chart]) -> Markup:
    history = inputs.history
    return Markup() if history is None else _HTML.curves(places=curves.places(drawn), gaps=history.gaps)
