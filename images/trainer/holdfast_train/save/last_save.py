"""The decision whether to save once more when the pod has to leave. Pure."""

from typing import Final, NamedTuple

from holdfast_train.save.interval import Cost, median

SPARE: Final = 10.0  # seconds left after the last save: to hand over, and for an estimate that was too short


class LastSave(NamedTuple):
    """Whether to `save`, and `why`, as the end of the line "notice to leave in 27.0 s; ..."."""

    save: bool
    why: str


def spare(budget: float) -> float:
    """The seconds of `budget` that must be left after the last save: SPARE, at most half of `budget`.

    Half, because a pod with five seconds and a save that takes half a second should save.
    """
    return min(SPARE, budget / 2)


def estimate_seconds(size: int, costs: tuple[Cost, ...]) -> float | None:
    """Seconds until `size` bytes are committed, at the median rate of earlier saves. None if no rate is known."""
    known = [cost.commit / cost.size for cost in costs if cost.size > 0]
    return size * median(known) if known else None


def choose_last_save(budget: float, size: int, costs: tuple[Cost, ...]) -> LastSave:
    """What to do with `budget` seconds left and an unsaved state of `size` bytes, when no save is in flight.

    A save begins only if it is committed with `spare` seconds left. If none was measured at full speed one is tried,
    because it may be the only one of this attempt.
    """
    seconds = estimate_seconds(size, costs)
    if seconds is None:
        return LastSave(True, "the time of a save is not known: trying one")
    kept = spare(budget)
    if seconds <= budget - kept:
        return LastSave(True, f"a save takes about {seconds:.1f} s: saving")
    return LastSave(False, f"a save takes about {seconds:.1f} s and {kept:.1f} s must be left: not saving")
