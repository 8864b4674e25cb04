"""`StallWatch`: ends a training that hangs: it takes no step, and its program does not end.

The launcher looks, not the operator and not the program: a deadlock or SIGSTOP also stops the threads that report, and
an operator that is away is not a hang. Each rank writes its last step into the file `pulse-<rank>` beside its verdict.
What a program without the library reports about its steps, the launcher itself writes into the file TOLD.
A program that takes no step may still work (`work`). What the ranks do is gathered before it is ended (`hang`).
Times are of the launcher's clock, so a program that is slow to write looks slow and not hung.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast_protocol import settings, variables

from .process_tree import descendants
from .work import Work

LOOK_SECONDS = 1.0  # between two looks
AUTO_LEAST = 300.0  # seconds: shorter outages of a data source are no hang
TIMES_P99, TIMES_LONGEST = 5.0, 2.0
PAUSES_KEPT = 1000
PARTS = 100  # of the limit, for which the work is known
TRAINING = "training"
TOLD = "told-steps"  # a file beside the verdicts


class Rank(NamedTuple):
    """What a rank does, and its last step."""

    doing: str
    step: int | None


class Pace:
    """Judges from look to look whether a training hangs. Pure: `now` is in seconds, of any clock that does not jump.

    `limit`: seconds without a step; None for Auto. Auto learns the pauses between steps, and a program that works does
    not hang: an evaluation or a save may take longer than all steps before it. What counts is the work in the last
    `limit` seconds together.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._seen: Mapping[int, Rank] = {}
        self._changed_at = self._put_off_at = 0.0
        self._worked: deque[tuple[float, float]] = deque()  # when a part of the time ended, and the work in it
        self._is_first = True  # no pause between two steps has begun
        self._pauses: deque[float] = deque(maxlen=PAUSES_KEPT)

    @property
    def limit(self) -> float | None:
        """Seconds without a step after which a training hangs; None if that is not known yet."""
        if self._limit is not None:
            return self._limit
        if not self._pauses:
            return None
        ordered = sorted(self._pauses)
        return max(AUTO_LEAST, TIMES_P99 * ordered[(len(ordered) - 1) * 99 // 100], TIMES_LONGEST * ordered[-1])

    def look(self, ranks: Mapping[int, Rank], now: float, *, worked: float) -> str:
        """How the training hangs, in words; empty if it does not. `worked`: seconds since the last look, see `Work`."""
        limit = self.limit
        if self._limit is None:
            self._note_work(now, worked, limit or AUTO_LEAST)
        if ranks != self._seen:
            self._learn(ranks, now)
            self._seen, self._changed_at = dict(ranks), now
            return ""
        if not ranks or any(one.doing != TRAINING or one.step is None for one in ranks.values()):
            return ""
        since = self._changed_at if self._limit is not None else max(self._changed_at, self._put_off_at)
        if limit is None or now - since <= limit or sum(seconds for _, seconds in self._worked) > limit:
            return ""
        return _words(ranks, now - self._changed_at, limit, is_auto=self._limit is None)

    def put_off(self, now: float) -> None:
        """Start over to wait for a step, or for the limit."""
        self._put_off_at = now

    def _note_work(self, now: float, worked: float, limit: float) -> None:
        """Keep the work of the last `limit` seconds."""
        if len(self._worked) > 1 and now - self._worked[-2][0] < limit / PARTS:
            worked += self._worked.pop()[1]
        self._worked.append((now, worked))
        while self._worked[0][0] < now - limit:
            self._worked.popleft()

    def _learn(self, ranks: Mapping[int, Rank], now: float) -> None:
        """A pause counts if all ranks trained before it and after it: a save is not a pause between steps."""
        both = [*self._seen.values(), *ranks.values()]
        if not self._seen or not ranks or any(one.doing != TRAINING for one in both):
            self._is_first = True
        elif self._is_first:
            self._is_first = False  # it began before the first look that saw training
        else:
            self._pauses.append(now - self._changed_at)


def _words(ranks: Mapping[int, Rank], seconds: float, limit: float, *, is_auto: bool) -> str:
    steps = {rank: one.step or 0 for rank, one in ranks.items()}
    last = min(steps.values())
    kind = f"Auto, {limit:.0f} s here, in which it computed and moved hardly anything" if is_auto else f"{limit:g} s"
    text = f"no step for {seconds:.0f} s after step {last} (failure.stallTimeout: {kind})"
    behind = [str(rank) for rank, step in sorted(steps.items()) if step == last]
    return text if len(set(steps.values())) == 1 else f"{text}; behind the others: rank {', '.join(behind)}"


def read_pulses(folder: str) -> dict[int, Rank]:
    """What each rank wrote last. A file that is being written is left out.

    If no rank writes, what the program told of its steps, as that of rank 0.
    """
    found = {}
    for path in Path(folder).glob("pulse-*"):
        with contextlib.suppress(OSError, ValueError):
            found[int(path.name[len("pulse-") :])] = _read_pulse(path)
    if not found:
        with contextlib.suppress(OSError, ValueError):
            found[0] = _read_pulse(Path(folder, TOLD))
    return found


def _read_pulse(path: Path) -> Rank:
    doing, step = path.read_text(encoding="utf-8").split()
    return Rank(doing, None if step == "-" else int(step))


class StallWatch:
    """Inside `with`, a thread looks at the pulses in `folder`, and calls `end`, with words, if training hangs.

    On one of several nodes, a program that waits, without a processor, for an evaluation on another node looks like one
    that hangs. So with Auto, `end` ends it only if one of its own ranks is the cause; otherwise it returns False, and
    is called again after the same time.

    What `others` do, children of the launcher that belong to no program, does not count as work of the program.
    """

    def __init__(
        self,
        folder: str | None,
        environment: Mapping[str, str],
        end: Callable[..., bool],
        others: Callable[[], Collection[int]] = list,
    ) -> None:
        stall = settings.read(environment).stall
        self._is_on = stall is not None
        self._folder = folder
        self._pace = Pace(None if stall is None else stall.timeout)
        self._is_auto = stall is not None and stall.timeout is None
        self._only_own = self._is_auto and variables.has_several_nodes(environment)
        self._end = end
        self._others = others
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall-watch", daemon=True)

    def __enter__(self) -> None:
        if self._is_on and self._folder:
            for path in (*Path(self._folder).glob("pulse-*"), Path(self._folder, TOLD)):  # of an earlier program
                path.unlink(missing_ok=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        work = Work()
        while self._folder and not self._over.wait(LOOK_SECONDS):
            ranks, now = read_pulses(self._folder), time.monotonic()
            worked = work.look(descendants(os.getpid(), self._others())) if ranks and self._is_auto else 0.0
            how = self._pace.look(ranks, now, worked=worked)
            if how:
                if self._end(how, only_own=self._only_own):
                    return
                self._pace.put_off(time.monotonic())
