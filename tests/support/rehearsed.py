"""Runs of a rehearsal, as `compare` gets them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast_cli.rehearse.left import Interruption, Left, Start
from holdfast_train.storage.base import Storage
from holdfast_train.storage.folder import FolderStorage

NOWHERE = FolderStorage("/nowhere/job")
WHOLE = Start(1, None, 0, None, False, 1, 60, 9.0, 1.0)


def interrupted(
    by: Interruption = Interruption.CRASH, *, first: int | None = 31, resumed: int | None = 30, last: int = 60
) -> tuple[Start, ...]:
    """Two starts: the first one is interrupted at step 37, the second one goes on from step 30."""
    return (
        Start(1, by, None, None, False, 1, 37, 9.0, 1.0),
        Start(2, None, 0, resumed, True, first, last, 9.0, 1.0),
    )


def losses(
    steps: int = 60, *, wrong: Mapping[int, float] | None = None, add: float = 0.0
) -> dict[int, dict[str, float]]:
    """The loss of each step. `wrong`: other losses by step."""
    return {step: {"loss": (wrong or {}).get(step, 1 / step + add)} for step in range(1, steps + 1)}


def left(
    name: str,
    folder: Path | None = None,
    figures: Mapping[int, Mapping[str, float]] | None = None,
    *,
    starts: Sequence[Start] = (WHOLE,),
    saves: Sequence[str] = (),
    store: Storage = NOWHERE,
) -> Left:
    """A run with one folder, or none."""
    return Left(
        name, store, () if folder is None else (folder,), figures or {}, tuple(starts), tuple(saves), said="bye\n"
    )
