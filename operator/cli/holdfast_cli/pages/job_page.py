"""The page of one job: what it is, how far it is, and what it has cost to get there."""

from holdfast.core.books.ledger import counts_steps
from holdfast_cli.jobs import costs, view
from holdfast_cli.pages import attempts, curves, job_sections, stored_job
from holdfast_cli.pages.fragments import Figure, figures, html, pill, section
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.pages.page import Chart, Fragment, Page
from holdfast_cli.pages.pictures import progress_bar
from holdfast_cli.terminal import formats
from holdfast_model.pages.fragments import note

__all__ = ["JobInputs", "job_page"]


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


def _heading(inputs: JobInputs) -> str:
    """Name, phase, reason, what happens next, and what could not be read."""
    job, now = inputs.job, inputs.now
    if job is None:
        namespace, _, name = inputs.name.rpartition("/") if inputs.checkpoints else ("", "", inputs.name)
        lead = "The job is not in the cluster any more, or was not asked for. This is what its storage tells."
        lines = [_title(namespace, name, ""), f'<p class="lead">{html(lead)}</p>']
        meta = [inputs.place] if inputs.place != name else []
    else:
        status = job.status
        phase = pill(view.phase_text(status.phase))
        lines = [_title(job.metadata.namespace, job.metadata.name, phase)]
        said = status.decision.message if status.decision else status.reason or ""
        lines += [f'<p class="lead">{html(said)}</p>'] if said else []
        lines.append(f"<p>{html(view.next_step(job))}</p>")
        if job.metadata.deletion_timestamp:
            lines.append(note("The job is being deleted: its pod is asked to leave. Its checkpoints stay."))
        meta = [f"created {formats.ago(job.metadata.creation_timestamp, now)}", f"image {job.spec.trainer.image}"]
        meta += [inputs.place] if inputs.place else []
    meta.append(f"as of {formats.moment(now)} {now.astimezone():%Z}")
    lines.append(f'<p class="meta">{" · ".join(map(html, meta))}</p>')
    return "".join([*lines, *map(note, inputs.notes)])


def _title(namespace: str, name: str, phase: str) -> str:
    before = f'<span class="namespace">{html(namespace)}/</span>' if namespace else ""
    return f'<div class="title"><h1>{before}{html(name)}</h1>{phase}</div>'


def progress(inputs: JobInputs) -> str:
    """The large figures."""
    if inputs.job is None:
        found = stored_job.figures_of(inputs)
        return section("Progress", figures(found)) if found else ""
    share = view.fraction(inputs.job)
    bar = "" if share is None else progress_bar(share)
    measured = [Figure(one.name, view.loss_text(one.value)) for one in inputs.job.status.progress.metrics]
    metrics = f"<h3>Metrics</h3>{figures(measured)}" if measured else ""
    return section("Progress", bar, figures(job_figures(inputs)), metrics)


def job_figures(inputs: JobInputs) -> list[Figure]:
    """Name, value, and a line below: from the object of the job."""
    job, now = inputs.job, inputs.now
    if job is None:
        return stored_job.figures_of(inputs)
    status = job.status
    ledger, saved, forecast = status.ledger, status.checkpoint, status.forecast
    final = status.phase is not None and status.phase.final
    step, _, goal = view.steps(job).partition(" / ")
    found = [Figure("Step", step, f"of {goal}, {view.percent(job)}" if goal else "")]
    if final:
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
        found.append(Figure("Checkpoint", f"step {formats.count(saved.step)}", formats.ago(saved.committed_at, now)))
    if (goodput := formats.number(ledger.goodput)) is not None:
        found.append(Figure("Goodput", f"{goodput:.1%}", "of the time in steps that were kept"))
    if ledger.spent:
        more = f"{formats.money(forecast.cost)} expected in the end" if forecast.cost else ""
        found.append(Figure("Spent", formats.money(ledger.spent), more))
    if text := costs.saved(ledger):
        amount, _, against = text.partition(" ")
        found.append(Figure("Saved" if " saved " in text else "Lost", amount, against.replace(" saved ", " ")))
    if forecast.slack is not None and not final:
        deadline = job.spec.capacity.deadline
        found.append(Figure("Slack", view.slack_text(forecast), f"until the deadline {formats.moment(deadline)}"))
    return found


def _curves(inputs: JobInputs, drawn: list[Chart]) -> str:
    history = inputs.history
    if history is None:
        return ""
    missing = (
        "" if drawn else "<p>The storage has no history of this training: no values were reported, or none yet.</p>"
    )
    gaps = "".join(note(f"A part of the history is missing: {gap}") for gap in history.gaps)
    return section("Curves", curves.places(drawn), missing, gaps)
