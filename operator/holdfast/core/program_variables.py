"""The variables of a program's container that follow from the job: when to save, what to report, what the user set."""

import json
from collections.abc import Mapping
from typing import Any

from holdfast.api.attempt import Attempt
from holdfast.api.failure import Failure
from holdfast.api.job import Checkpoint, Progress, Trainer
from holdfast.api.objects import TrainingJob
from holdfast.api.scalars import format_duration, quantity_value
from holdfast.core.observe.demand import accelerators_on

Env = list[dict[str, Any]]

# Variables by which a user tells wandb to resume in another way: wandb refuses WANDB_RESUME beside them.
_WANDB_RESUMES = frozenset({"WANDB_RESUME_FROM", "WANDB_FORK_FROM"})


def own_variables(job: TrainingJob) -> Env:
    """The user's variables, after ours: Kubernetes puts values in for `$(HOLDFAST_JOB_UID)` if it comes earlier."""
    trainer = job.spec.trainer
    own: Env = [var.to_object() for var in trainer.env if not var.name.startswith("HOLDFAST_")]
    named = {var["name"] for var in own}
    ours: dict[str, str | None] = {"HOLDFAST_TRACKING_MLFLOW": "true" if trainer.tracking.mlflow else None}
    if trainer.tracking.wandb and not named & _WANDB_RESUMES:
        ours |= {"WANDB_RUN_ID": job.metadata.uid, "WANDB_RESUME": "allow", "WANDB_NAME": job.metadata.name}
    return [*(var for var in plain(ours) if var["name"] not in named), *own]


def torchrun_variables(trainer: Trainer, attempt: Attempt) -> Env:
    """The defaults of torchrun. They come last: the user's variables must not change the size of the training.

    With one node its ranks meet on a free port (standalone), so pods may share a network. With several nodes the
    launcher sets the rest for each start of the program, since pods may be replaced.
    """
    processes = {"PET_NPROC_PER_NODE": str(max(1, accelerators(trainer, attempt)))}
    alone = {"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_STANDALONE": "1"}
    return plain(processes | alone if attempt.nodes == 1 else processes)


def accelerators(trainer: Trainer, attempt: Attempt) -> int:
    """How many accelerators a pod of this attempt has."""
    return accelerators_on(trainer, attempt.tier) if attempt.tier.accelerator else 0


def saving_variables(checkpoint: Checkpoint, failure: Failure, life: float) -> Env:
    """When to save, what to keep, where to start, and when to go back."""
    keep, best, rate, resume = checkpoint.keep, checkpoint.keep.best, checkpoint.upload_rate, checkpoint.resume
    return plain(
        {
            "HOLDFAST_CHECKPOINT_EVERY": str(checkpoint.every),
            "HOLDFAST_CHECKPOINT_MAX_LOSS": format_duration(checkpoint.max_lost_work)
            if checkpoint.max_lost_work
            else None,
            "HOLDFAST_CHECKPOINT_UPLOAD_RATE": str(int(quantity_value(rate))) if rate else None,
            "HOLDFAST_CHECKPOINT_PEERS": "true" if checkpoint.peers else None,
            "HOLDFAST_SECONDS_BETWEEN_LOSSES": str(max(1, round(life))),
            "HOLDFAST_CHECKPOINT_KEEP_LAST": str(keep.last),
            "HOLDFAST_CHECKPOINT_KEEP_EVERY": format_duration(keep.every) if keep.every else None,
            "HOLDFAST_CHECKPOINT_KEEP_BEST": str(best.count) if best else None,
            "HOLDFAST_CHECKPOINT_KEEP_METRIC": best.metric if best else None,
            "HOLDFAST_CHECKPOINT_KEEP_MODE": best.mode if best else None,
            "HOLDFAST_CHECKPOINT_RESUME": resume if isinstance(resume, str) else resume.source,
            "HOLDFAST_CHECKPOINT_RESUME_ONLY": None if isinstance(resume, str) else ",".join(resume.only),
            "HOLDFAST_NON_FINITE": failure.non_finite,
            "HOLDFAST_SPIKE": failure.spike.for_program if failure.spike else None,
            "HOLDFAST_SLOW_WINDOW": failure.slow_ranks.for_program,
            "HOLDFAST_STALL_TIMEOUT": failure.stall_timeout.for_launcher,
        }
    )


def progress_variables(progress: Progress) -> Env:
    """What the launcher looks for in the output. Kubernetes puts no variable in for $$(NAME)."""
    patterns = json.dumps(progress.patterns).replace("$(", "$$(") if progress.patterns else None
    return plain({"HOLDFAST_PROGRESS_PATTERNS": patterns})


def plain(values: Mapping[str, str | None]) -> Env:
    """Variables with these values; a variable whose value is None is left out."""
    return [{"name": name, "value": value} for name, value in values.items() if value is not None]
