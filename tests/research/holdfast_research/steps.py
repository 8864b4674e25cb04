"""Traces in the steps of a study."""

from holdfast_cli.simulate.traces import Trace

MINUTE = 60


def longest_step(trace: Trace) -> int:
    """Seconds of the longest step in which a study can read the trace: whole minutes, or a part of a minute."""
    if trace.gap % MINUTE == 0:
        return trace.gap
    return max(seconds for seconds in range(1, min(trace.gap, MINUTE) + 1) if MINUTE % seconds == 0)


def at_gap(trace: Trace, gap: int) -> Trace:
    """The same availability in steps of `gap` seconds, not longer than those of the trace. Raises ValueError.

    If `gap` does not divide the trace's gap, a change comes at the next step, so less than `gap` late.
    """
    if not 1 <= gap <= trace.gap:
        raise ValueError(f"gap must be 1 s to the {trace.gap} s of the trace; got {gap}")
    if gap == trace.gap:
        return trace
    steps = len(trace.up) * trace.gap // gap
    return Trace(trace.name, gap, bytes([trace.up[step * gap // trace.gap] for step in range(steps)]))
