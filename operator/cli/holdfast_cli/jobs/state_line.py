"""The state of a job on one line. Pure."""

from datetime import datetime

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs import costs, view
from holdfast_cli.terminal import formats


def state_line(job: TrainingJob, now: datetime) -> Text:
    """`Running · spot · step 120 / 1,200 (10.0%) · ETA 2h05m · 4.10 of 50.00 spent · 1 interruption`.

    Unknown parts are left out.
    """
    status = job.status
    nodes = status.current.nodes if status.current else 1
    parts = [
        "" if status.is_over else status.tier or "",
        f"{nodes} nodes" if nodes > 1 else "",
        _step(job),
        "" if (left := view.eta(job, now)) == formats.NOTHING else f"ETA {left}",
        costs.spent_words(status.ledger.spent, job.spec.capacity.budget),
        interruptions(job) if status.restarts.interruptions else "",
    ]
    return Text.assemble(view.phase_text(status.phase), *((f" · {part}", "dim") for part in parts if part))


def interruptions(job: TrainingJob) -> str:
    """`1 interruption`."""
    count = job.status.restarts.interruptions
    return "1 interruption" if count == 1 else f"{formats.count(count)} interruptions"


def _step(job: TrainingJob) -> str:
    share = "" if view.fraction(job) is None else f" ({view.percent(job)})"
    return f"step {view.steps(job)}{share}" if job.status.progress.step or share else ""
