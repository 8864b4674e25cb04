"""If the memory of a trainer has room for the copy of its state that a save makes. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import Tier
from holdfast.api.scalars import quantity_value
from holdfast.api.status import TrainingJobStatus
from holdfast.api.trainer import Trainer
from holdfast_cli.check.findings import Report

FIELD: Final = "spec.trainer.resources.memory"
SPARE: Final = 1 << 30  # bytes for the program itself, as in holdfast_train.memory
SPARE_SHARE: Final = 20
MEMORY_SHORT: Final = "MemoryShort"  # the condition of a job whose trainer reports that a save does not fit


@dataclass(frozen=True, slots=True)
class State:
    """How large the state of a training is, and how that is known."""

    size: int
    source: str


def stored_state(status: TrainingJobStatus) -> State | None:
    """The size of the state as the newest checkpoint of the job has it; None if there is none."""
    saved = status.checkpoint
    if saved is None or not saved.bytes:
        return None
    return State(saved.bytes, "the newest checkpoint" + ("" if saved.step is None else f", of step {saved.step}"))


def check_memory(trainer: Trainer, tiers: Iterable[Tier], state: State, report: Report) -> None:
    """Say if the trainer's memory has room for the state's copy, and for the state itself where it is not a GPU's.

    With several nodes each of them copies its share.
    """
    memory, limit = trainer.resources.memory, int(quantity_value(trainer.resources.memory))
    without_gpu = [tier.name for tier in tiers if tier.accelerator is None]
    in_memory = trainer.accelerators_per_node == 0 or bool(without_gpu)
    share, nodes = ceil(state.size / trainer.nodes), trainer.nodes
    wanted = share * (1 + in_memory) + min(SPARE, limit // SPARE_SHARE)
    of = f"a node's share of {_gib(state.size)}" if nodes > 1 else state.source
    what = f"the copy of the state that a save makes ({_gib(share)}: {of})"
    if in_memory:
        where = f" on tier {', '.join(without_gpu)}" if without_gpu and trainer.accelerators_per_node else ""
        what = f"the state{where} and {what}"
    if wanted <= limit:
        report.note(FIELD, f"{memory} has room for {what}")
        return
    least = ceil((share * (1 + in_memory) + SPARE) / 2**30)
    report.warn(
        FIELD, f"{memory} has no room for {what}; the trainer may be killed while it saves: set {least}Gi or more"
    )


def reported_shortage(job: TrainingJob, trainer: Trainer) -> str | None:
    """What the job's running trainer reports of its memory; None if nothing, or if `trainer` would get more."""
    now, then = (quantity_value(one.resources.memory) for one in (trainer, job.spec.trainer))
    found = (one for one in job.status.conditions if one.type == MEMORY_SHORT and one.status == "True")
    return next((one.message for one in found if now <= then), None)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}Gi"
