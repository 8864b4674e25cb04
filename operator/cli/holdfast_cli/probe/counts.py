"""The numbers of accelerators that a probe compares."""

from typing import Final

import typer

from holdfast.api.objects import TrainingJob

MOST_ACCELERATORS: Final = 64  # of one node, as in the API
MOST_COUNTS: Final = 6


def counts(text: str | None, job: TrainingJob) -> list[int]:
    """The numbers of --accelerators, ascending. Raises typer.BadParameter."""
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    allowed = f"must be at most {MOST_COUNTS} numbers from 1 to {MOST_ACCELERATORS}, such as 1,4"
    if not all(part.isascii() and part.isdigit() and len(part) <= 2 for part in parts) or len(parts) > MOST_COUNTS:
        raise typer.BadParameter(f"{text[:40]!r}: {allowed}", param_hint="--accelerators")
    found = sorted({int(part) for part in parts})
    if not 1 <= found[0] <= found[-1] <= MOST_ACCELERATORS:
        raise typer.BadParameter(f"{text!r}: {allowed}", param_hint="--accelerators")
    if job.spec.trainer.accelerators_per_node == 0:
        problem = "the program needs no accelerator: spec.trainer.acceleratorsPerNode is 0"
        raise typer.BadParameter(problem, param_hint="--accelerators")
    return found
