"""What can still be saved when this pod is told to leave. Pure."""

from typing import Final, Literal, NamedTuple

from holdfast_train.save.interval import Cost, middle

__all__ = ["SPARE", "LastSave", "estimate", "last_save", "spare"]

SPARE: Final = 10.0  # seconds left when the last save is done: to hand over, and for an estimate that was wrong


class LastSave(NamedTuple):
    """What to do, and why in words that follow "told to leave in 27.0 s; ".

    `act`: `save` this step, after the save in flight if there is one; `finish` only the one in flight; or `none`.
    """

    act: Literal["save", "finish", "none"]
    words: str


def spare(budget: float) -> float:
    """Of `budget` seconds, those that must be left: SPARE, or half of a budget that is shorter than twice that.

    A pod with five seconds and a save that takes a tenth of one should save.
    """
    return min(SPARE, budget / 2)


def estimate(size: int, costs: tuple[Cost, ...]) -> float | None:
    """Seconds that `size` bytes take until they are committed, at the rate of earlier saves. None if there is none."""
    known = [cost.commit / cost.size for cost in costs if cost.size > 0]
    return size * middle(known) if known else None


def last_save(budget: float, size: int, costs: tuple[Cost, ...], in_flight: int | None = None) -> LastSave:
    """What to do with `budget` seconds left and a state of `size` bytes that no save holds yet.

    `in_flight`: bytes that a save of an earlier step has still to write, None if there is no such save. A new save is
    begun only if it, and what comes before it, is done with `spare` seconds left. One in flight is finished in any
    case: nothing is won by giving it up. If none was measured at full speed one is tried, for it may be all that this
    attempt leaves.
    """
    whole = estimate(size, costs)
    before = 0.0 if in_flight is None else estimate(in_flight, costs)
    if whole is None or before is None:
        if in_flight is not None:
            return LastSave("finish", "how long a save takes is not known: only the one in flight is finished")
        return LastSave("save", "how long a save takes is not known: one is tried")
    kept = spare(budget)
    if before + whole <= budget - kept:
        if in_flight is None:
            return LastSave("save", f"a save takes about {whole:.1f} s: one is begun")
        return LastSave(
            "save",
            f"the save in flight takes about {before:.1f} s more, and one of this step {whole:.1f} s: one is begun",
        )
    short = f"a save takes about {whole:.1f} s and {kept:.1f} s must be left"
    if in_flight is None:
        return LastSave("none", f"{short}: none is begun")
    doubt = "" if before <= budget else ", which may not be done in time"
    return LastSave("finish", f"{short}: only the save in flight is finished, about {before:.1f} s more{doubt}")
