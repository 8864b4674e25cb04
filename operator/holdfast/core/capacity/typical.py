"""From times that were measured to times that are reckoned with, and what is assumed before any was measured."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast.api.knowledge import MAX_MEASURED, Measured


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is reckoned with where nothing was measured. A world with another pace of life has others."""

    asking: timedelta = timedelta(minutes=1)  # for a node, where nobody has got one yet; no pod is judged before
    starting: timedelta = timedelta(minutes=3)  # from the node to the first step
    starting_at_worst: timedelta = timedelta(minutes=15)
    unnoticed: timedelta = timedelta(seconds=90)  # until a node that fell silent is called lost
    unasked: timedelta = timedelta(minutes=1)  # a policy that is due, as while an operator is replaced
    spot_life: timedelta = timedelta(hours=2)  # of a node, before any was lost
    other_life: timedelta = timedelta(days=30)


def median(measured: Measured) -> timedelta:
    """What is typical: an outlier or two, such as the first pull of an image, do not move it. The upper of two."""
    times = sorted(measured.recent)
    return times[len(times) // 2] if times else measured.worst


def at_worst(measured: Measured) -> timedelta:
    """The longest that has to be reckoned with: the worst seen, and more than that as long as few were seen."""
    count = max(len(measured.recent), 1)
    return measured.worst if count >= MAX_MEASURED else measured.worst * (count + 1) / count
