"""Which process took the processor while something was measured: a figure that a busy load generator made is no figure.

Shares are in percent of one core.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import clock_gettime, monotonic

import psutil

SYSTEM = "all of the machine"


class Shares:
    """Reads how much time groups of processes have used since it was made. `groups`: name -> process ids."""

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        self._groups = {name: [psutil.Process(pid) for pid in pids] for name, pids in groups.items()}
        self._started = monotonic()
        self._before = self._used()

    def _used(self) -> dict[str, float]:
        return {name: sum(map(_seconds, group)) for name, group in self._groups.items()} | {SYSTEM: _busy()}

    def read(self) -> dict[str, float]:
        """The share of each group and of SYSTEM. A process that has ended counts with what it had used at first."""
        seconds, now = monotonic() - self._started, self._used()
        return {name: 100 * max(0.0, now[name] - before) / seconds for name, before in self._before.items()}


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _busy() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def used_by(pid: int) -> float:
    """Seconds of processor time that all threads of a process have used, to the nanosecond.

    /proc counts in ticks of 10 ms, which are as much as an idle operator uses in many seconds. The number of the clock
    is that of CPUCLOCK_SCHED for a process, see clock_getcpuclockid(3).
    """
    return clock_gettime((~pid << 3) | 2)
