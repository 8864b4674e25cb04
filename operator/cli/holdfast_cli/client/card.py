"""A job in a notebook: its state in figures, and a small curve of its loss."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast_cli.client.waiting import why
from holdfast_cli.jobs import view
from holdfast_cli.jobs.curve import columns, sentences, to_curve
from holdfast_cli.jobs.state_line import interruptions
from holdfast_cli.terminal import formats
from holdfast_model.pages.template import Markup, Template
from holdfast_train.series.history import History

WIDE, HIGH, EDGE = 320, 64, 3  # of the curve, in the units of its picture
_COLOURS: Final = {"green": "good", "red": "bad", "yellow": "waits", "magenta": "waits", "cyan": "waits"}
_HTML: Final = Template(__name__)


def card(job: TrainingJob, history: History | None, now: datetime, note: str = "") -> str:
    """The HTML of a job. `note`: what could not be read."""
    status, phase = job.status, view.phase_text(job.status.phase)
    share = view.fraction(job)
    figures = [
        ("Tier", ", ".join(filter(None, (status.tier, status.node))) or formats.NOTHING),
        ("Step", view.steps(job)),
        ("Done", view.percent(job)),
        ("ETA", view.eta(job, now)),
        ("Cost", formats.money(status.ledger.spent)),
        ("Loss", status.progress.loss or formats.NOTHING),
    ]
    return _HTML.card(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        phase=phase.plain,
        kind=_COLOURS.get(str(phase.style).rpartition(" ")[2], "quiet"),
        lead=_lead(job),
        figures=[figure for figure in figures if figure[1] != formats.NOTHING],
        done=None if share is None else f"{share * 100:.1f}%",
        curve=_curve(history) if history else Markup(),
        runs=[(run.tracker, run.url) for run in status.tracking],
        note=note,
        moment=formats.moment(now),
    )


def _lead(job: TrainingJob) -> str:
    """What comes next, why it failed, or how often it lost a node."""
    status = job.status
    if status.phase is Phase.FAILED:
        return why(job)
    return view.what_next(job) if not status.is_over else interruptions(job)


def _curve(history: History) -> Markup:
    """The loss over the steps that count; nothing if there are fewer than two of them."""
    curve = to_curve(history)
    if len(curve.points) < 2:
        return Markup()
    return _HTML.curve(
        points=" ".join(f"{x:.1f},{y:.1f}" for x, y in _places(columns(curve.points, WIDE // 2))),
        wide=WIDE,
        high=HIGH,
        said=sentences(curve)[0].plain,
    )


def _places(values: Sequence[float]) -> list[tuple[float, float]]:
    """Where the values are in the picture, from left to right; the largest is at the top."""
    low, high = min(values), max(values)
    span, last = (high - low) or 1.0, max(len(values) - 1, 1)
    return [
        (number * WIDE / last, EDGE + (high - value) / span * (HIGH - 2 * EDGE)) for number, value in enumerate(values)
    ]


def failed(name: str, why: str) -> str:
    """The HTML of a job that cannot be read."""
    return _HTML.failed(name=name, why=why)
