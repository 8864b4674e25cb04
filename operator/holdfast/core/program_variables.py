"""The variables of a program's container that the user set, and those of torchrun."""

from collections.abc import Mapping
from typing import Any

from holdfast.api.attempt import Attempt
from holdfast.api.objects import TrainingJob
from holdfast.api.trainer import Trainer
from holdfast.core.observe.demand import accelerators_on
from holdfast_protocol import variables

Env = list[dict[str, Any]]

# Variables by which a user tells wandb to resume in another way: wandb refuses WANDB_RESUME beside them.
_WANDB_RESUMES = frozenset({"WANDB_RESUME_FROM", "WANDB_FORK_FROM"})


def own_variables(job: TrainingJob) -> Env:
    """The user's variables, after ours: Kubernetes puts values in for `$(HOLDFAST_JOB_UID)` if it comes earlier."""
    trainer = job.spec.trainer
    own: Env = [var.to_object() for var in trainer.env if not var.name.startswith(variables.PREFIX)]
    named = {var["name"] for var in own}
    ours: dict[str, str | None] = {}
    if trainer.tracking.wandb and not named & _WANDB_RESUMES:
        ours = {"WANDB_RUN_ID": job.metadata.uid, "WANDB_RESUME": "allow", "WANDB_NAME": job.metadata.name}
    return [*(var for var in plain(ours) if var["name"] not in named), *own]


def torchrun_variables(trainer: Trainer, attempt: Attempt) -> Env:
    """The defaults of torchrun. They come last: the user's variables must not change the size of the training.

    With one node its ranks meet on a free port (standalone), so pods may share a network. With several nodes the
    launcher sets the rest for each start of the program, since pods may be replaced.
    """
    processes = {variables.PROCESSES: str(max(1, accelerators(trainer, attempt)))}
    alone = {variables.SEVERAL: "1", variables.RANK_OF_NODE: "0", variables.STANDALONE: "1"}
    return plain(processes | alone if attempt.nodes == 1 else processes)


def accelerators(trainer: Trainer, attempt: Attempt) -> int:
    """How many accelerators a pod of this attempt has."""
    return accelerators_on(trainer, attempt.tier) if attempt.tier.accelerator else 0


def plain(values: Mapping[str, str | None]) -> Env:
    """Variables with these values; a variable whose value is None is left out."""
    return [{"name": name, "value": value} for name, value in values.items() if value is not None]
