"""Whether the program of an attempt that may still run can do harm, and whether its job goes on without its end.

It may still run on a silent node, or where a kubelet does not end its pod. Once the next attempt has raised the storage
fence, the log of checkpoints takes no commit of it.
"""

from typing import Final

from holdfast.api.attempt import Attempt
from holdfast.api.job import TrainingJobSpec
from holdfast.core.draft import Draft
from holdfast.core.made_from import fence_hash

NAMED: Final = 3  # volumes, at most, in a message


def is_harmless(draft: Draft, attempt: Attempt) -> bool:
    """True if the attempt's pod can do no harm once the next attempt has raised the storage fence.

    Its program holds the fence, or it has not come that far and is known to take it. Neither counts if the job has got
    another program since: that program may never raise the fence.
    """
    return (attempt.fenced and _runs_the_spec(draft, attempt)) or draft.is_program_fenced


def saves_folder(draft: Draft, attempt: Attempt) -> bool:
    """True if a process of Holdfast commits the attempt's folder: it takes the fence before the program starts."""
    return draft.snapshot.job.spec.checkpoint.folder is not None and _runs_the_spec(draft, attempt)


def why_wait(draft: Draft, attempt: Attempt) -> str | None:
    """Why the next attempt waits until the pod is confirmed gone, in words; None if it starts without that.

    | `failure.silentNode` | the program                                        | goes on without the old pod's end |
    |----------------------|----------------------------------------------------|-----------------------------------|
    | `Replace`            | any                                                | yes                               |
    | `Wait`               | any                                                | no                                |
    | `Auto`               | its folder is saved, no shared volume is writable  | yes                               |
    | `Auto`               | its folder is saved, a shared volume is writable   | no: the volume is named           |
    | `Auto`               | takes the storage fence itself                     | yes                               |
    | `Auto`               | another, or one that the spec does not name now    | no                                |
    """
    spec = draft.snapshot.job.spec
    match spec.failure.silent_node:
        case "Replace":
            return None
        case "Wait":
            return "failure.silentNode is Wait"
        case "Auto" if saves_folder(draft, attempt):
            return _why_shared(spec)
        case "Auto":
            return None if is_harmless(draft, attempt) else "nothing shows that the program uses Holdfast's checkpoints"


def _why_shared(spec: TrainingJobSpec) -> str | None:
    """Names the volumes that two pods of the job can write to at once; None if it has none."""
    volumes = [
        volume.name
        for volume in spec.trainer.volumes
        if (claim := volume.persistent_volume_claim) and not (volume.read_only or claim.read_only)
    ]
    if not volumes:
        return None
    named = ", ".join(volumes[:NAMED]) + (f" and {len(volumes) - NAMED} more" if len(volumes) > NAMED else "")
    return f"the old program may still write to {named} (failure.silentNode: Replace goes on all the same)"


def _runs_the_spec(draft: Draft, attempt: Attempt) -> bool:
    return fence_hash(attempt.made_from) == fence_hash(draft.made_from)
