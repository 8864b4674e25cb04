"""`LeftRanks`: ends a program whose ranks have all left on a notice.

The torchrun of a node waits up to 5 minutes for those of the other nodes. One of them may have ended before: the ranks
of a node that got SIGTERM save with all others, but its torchrun does not wait. Until the program ends, the operator
does not know that this node is ready.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable

from holdfast_protocol.rank_verdict import RankVerdict

from .process_tree import descendants, started_at
from .timings import USUAL, Timings
from .verdict_files import read_rank_verdicts, say


def have_left(verdicts: Iterable[RankVerdict], running: Callable[[], Collection[int]]) -> bool:
    """True if every rank has written that it has left, and its process has ended. `running`: the processes that run."""
    found = list(verdicts)
    if not found or any(one.result not in ("saved", "left") or not one.pid for one in found):
        return False
    alive = running()
    return not any(one.pid in alive for one in found)


class LeftRanks:
    """Inside `with`, a thread looks at the verdicts in `folder`, and calls `end` if the ranks have left.

    `others`: children of this process that belong to no program. What they write is not the verdict of a rank.
    """

    def __init__(
        self,
        folder: str | None,
        end: Callable[[], None],
        others: Callable[[], Collection[int]] = list,
        *,
        timings: Timings = USUAL,
    ) -> None:
        self._others = others
        self._timings = timings
        self._folder = folder
        self._end = end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="left-ranks", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while self._folder and not self._over.wait(self._timings.left_ranks_look):
            if have_left(self._ranks(), lambda: descendants(os.getpid())):
                if not self._over.wait(self._timings.left_ranks_linger) and not self._goes_on():
                    say("all ranks of this node have left, and the program has not ended: it is ended")
                    self._end()
                return

    def _ranks(self) -> list[RankVerdict]:
        """The verdicts of the program's ranks."""
        others = self._others()
        return [one for one in read_rank_verdicts(self._folder) if one.pid not in others]

    def _goes_on(self) -> bool:
        """True if the program has started something since its ranks left, such as the next command of a shell."""
        left_at = max(one.at for one in self._ranks())
        return any(started_at(pid) > left_at for pid in descendants(os.getpid(), self._others()))
