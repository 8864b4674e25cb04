"""`Forwarding`: passes a signal on to the processes of one program, in the right order.

The first signal goes to those that decide, such as a trainer that saves. A process that only waits for them is stopped
meanwhile: if it ended, the kernel would signal the children of `torch.multiprocessing.spawn`; if it ran on, a shell
would start its next command. A process that would signal a whole group, such as torchrun or `timeout`, does not get the
signal: workers of a data loader would end, and the trainer would fail in the middle of its save. Once the trainers have
ended, these processes end too.
"""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator

from ..process_tree import runs, send, state_of
from .receivers import Receivers, receivers

LOOK_SECONDS = 0.02  # between two looks whether the trainers have ended
OWN_END_SECONDS = 0.5  # for a process that was not stopped to pass on the last output, and to end by itself


def shutdown_timeout(grace: float) -> int:
    """Whole seconds that torchrun waits for its workers: the grace less a fifth (at most 10 s less), at least 1."""
    return max(1, int(grace - min(10.0, 0.2 * grace)))


class Forwarding:
    """Passes signals on. `others`: children of the launcher that belong to no program. `seconds`: for the trainers.

    The main thread also uses it in a handler of signals, so it takes no lock.
    """

    def __init__(self, others: Callable[[], Collection[int]], seconds: float) -> None:
        self._others, self._seconds = others, seconds
        # The command, and other processes that the signal concerns, each before those below it: whether it got it.
        self._told: dict[int, bool] = {}
        self._later: set[int] = set()  # processes that get it once none of their trainers runs
        self._put_off_once: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        """The processes that count: the command, and those that were signalled and may run."""
        return iter(list(self._told))

    def add(self, command: int) -> None:
        """The command runs. A signal just before may have reached it already."""
        self._told.setdefault(command, False)

    def forget(self, pid: int) -> None:
        """The process has ended."""
        self._told.pop(pid, None)

    def is_told(self, pid: int) -> bool:
        """True if the process got a signal, or gets one later."""
        return self._told.get(pid, False) or pid in self._put_off_once

    def forward(self, number: int, *, again: bool = True, spares_ranks: bool = True) -> None:
        """Signal the processes that decide. `again`: those too that were signalled before.

        `spares_ranks`: the ranks of torchrun get the signal, and not torchrun.
        """
        found = receivers(os.getpid(), number, self._others(), spares_ranks=spares_ranks)
        if number == signal.SIGKILL:
            self._later.clear()
        else:
            self._put_off(found)
        fresh = [pid for pid in (*found.held, *found.now) if pid not in self._told]
        called = [*self._told, *fresh] if again else fresh
        for pid in called:
            if pid not in self._later:
                send(pid, number)
        self._told.update(dict.fromkeys(called, True))

    def _put_off(self, found: Receivers) -> None:
        """Stop what waits for trainers, and let it end after them; also what would signal their group.

        A process that reads what they print goes on until then: they would wait for it as soon as a pipe is full.
        """
        later = (*found.held.items(), *found.passing_on.items())
        fresh = {pid: trainers for pid, trainers in later if not self.is_told(pid)}
        self._put_off_once |= fresh.keys()
        self._later |= fresh.keys()
        for pid in (fresh.keys() & found.held.keys()) - found.reading:
            send(pid, signal.SIGSTOP)
        if fresh:  # not by `threading`: a handler of signals may have interrupted it, with its lock taken
            _thread.start_new_thread(self._end_later, (fresh, found))

    def _end_later(self, waiting: dict[int, frozenset[int]], found: Receivers) -> None:
        """End each process of `waiting` after its trainers, or when their time is over."""
        deadline, alone_at = time.monotonic() + self._seconds, dict[int, float]()
        goes_on = found.reading | found.passing_on.keys()
        births = {pid: _birth(pid) for pid in waiting}
        while waiting:
            for pid, trainers in list(waiting.items()):
                now = time.monotonic()
                if any(map(runs, trainers)):
                    if now < deadline or pid in found.passing_on.keys() - found.agents:
                        continue
                    if pid in found.agents:  # as torchrun does it with ranks that do not end
                        for trainer in trainers:
                            send(trainer, signal.SIGKILL)
                elif pid in goes_on and runs(pid) and now < alone_at.setdefault(pid, now) + OWN_END_SECONDS:
                    continue
                del waiting[pid]
                self._later.discard(pid)
                if births[pid] == _birth(pid):  # otherwise it has ended, and its number may belong to another one
                    send(pid, signal.SIGTERM)
                    send(pid, signal.SIGCONT)
            time.sleep(LOOK_SECONDS)


def _birth(pid: int) -> float | None:
    found = state_of(pid)
    return None if found is None else found.started_at
