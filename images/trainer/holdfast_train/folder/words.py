"""What is said of the checkpoints of a folder, whose names may say no step."""

from pathlib import Path


def of_step(step: int | None) -> str:
    """In brackets behind the name of a checkpoint."""
    return "(its name says no step)" if step is None else f"(step {step})"


def newest(step: int | None, *, is_there: bool) -> str:
    """What this attempt has saved."""
    if not is_there:
        return "this attempt has saved no checkpoint"
    return "the newest checkpoint is saved; its name says no step" if step is None else f"saved step: {step}"


def nothing_saved(root: Path) -> str:
    """The program ended with exit code 0, and neither this attempt nor an earlier one has committed a save."""
    return (
        f"the program ended with exit code 0, and no save of it was ever committed, so its results are in no storage; "
        f"it wrote none into {root}: let it write there, or set checkpoint.folder to the folder into which it writes"
    )


def saved_on_notice(step: int | None) -> str:
    """The program saved when it was told to leave."""
    which = "a checkpoint" if step is None else f"the checkpoint of step {step}"
    return f"notice to leave: {which}, which the program wrote then, is saved"


def left(step: int | None, *, is_there: bool) -> str:
    """The program did not save when it was told to leave."""
    have = "has no step in its name" if step is None else f"is that of step {step}"
    have = f"the newest of this attempt {have}" if is_there else "this attempt has saved none before"
    return f"notice to leave: the program wrote no checkpoint then; {have}"
