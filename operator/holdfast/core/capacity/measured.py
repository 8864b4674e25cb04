"""The typical and the worst time of something that was measured a few times."""

from datetime import timedelta

from holdfast.api.knowledge import MAX_MEASURED, Measured


def median(measured: Measured) -> timedelta:
    """The typical time: the median, the upper of two. An outlier, such as a first image pull, does not move it."""
    times = sorted(measured.recent)
    return times[len(times) // 2] if times else measured.worst


def at_worst(measured: Measured) -> timedelta:
    """The time to plan with in the worst case: the longest time seen, and more while there are few measurements.

    With n < 5 measurements it is longest * (n + 1) / n.
    """
    count = max(len(measured.recent), 1)
    return measured.worst if count >= MAX_MEASURED else measured.worst * (count + 1) / count
