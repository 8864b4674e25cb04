"""What the Deadline rule and others cost on recorded Spot traces, against the optimum: mean, 95th percentile, misses.

    python -m tests.bench.policies FOLDER [WINDOWS]

FOLDER holds trace files (see holdfast.simulate.traces); WINDOWS start evenly over each trace, for each tightness.
A job is 48 h of work in 48 h / tightness; dedicated costs 3, Spot 1; a changeover takes 10 or 20 minutes. The ages of
spells begin with the job.
"""

import sys
from decimal import Decimal
from pathlib import Path

from holdfast.core.capacity.deadline import deadline
from holdfast.simulate.baselines import eager, greedy, never_return, uniform_progress
from holdfast.simulate.economy import Setting, playback, run
from holdfast.simulate.omniscient import Window, optimum
from holdfast.simulate.traces import read_trace

WORK = 48 * 3600
TIGHTNESS = (0.6, 0.75, 0.85, 0.92)
RULES = {
    "deadline": lambda _total: deadline,
    "never return": never_return,
    "eager": lambda _total: eager,
    "greedy": lambda _total: greedy,
    "uniform progress": lambda total: uniform_progress(WORK, total),
}
MODES = {"free": {}, "billed": {"billed_probe": True}, "10 min lost": {"lost": 600.0}}


def windows(traces, count):
    """Trace, first step and deadline of every job."""
    for trace in traces:
        for total in (WORK / tightness for tightness in TIGHTNESS):
            last = len(trace) - int(total // trace.gap)
            yield from ((trace, index * last // max(count - 1, 1), total) for index in range(count))


def best(trace, start, total, changeover):
    """The optimum of one job, without losses of work."""
    gap = trace.gap
    return optimum(Window([trace], start, WORK // gap, int(total // gap), changeover // gap))


def main(folder, count="60"):
    """Print the table."""
    traces = [read_trace(path) for path in sorted(Path(folder).glob("*.json"))]
    jobs = list(windows(traces, int(count)))
    for changeover in (600, 1200):
        optima = [best(*job, changeover) for job in jobs]
        for name, rule in RULES.items():
            for mode, given in MODES.items():
                ratios, misses = [], 0
                for (trace, start, total), lowest in zip(jobs, optima, strict=True):
                    setting = Setting(WORK, total, changeover, gap=trace.gap, **given, dedicated_price=Decimal(3))
                    outcome = run(rule(total), [playback(trace, start)], setting)
                    ratios.append(outcome.cost / lowest)
                    misses += outcome.missed
                ratios.sort()
                mean, tail = sum(ratios) / len(ratios), ratios[int(0.95 * len(ratios))]
                late = f"{misses} of {len(ratios)} late"
                print(f"{changeover // 60} min  {name:16} {mode:12} {mean:.4f} / {tail:.3f}  {late}")


if __name__ == "__main__":
    main(*sys.argv[1:])
