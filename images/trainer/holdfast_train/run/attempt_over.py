"""Whether the attempt of this process is over although its program runs: the training starts again on its nodes."""

import threading
import weakref
from collections.abc import Iterator
from typing import Final, Protocol


class AttemptOverError(BaseException):
    """This attempt is over, and the program cannot go on with it.

    Not an Exception: a program that catches the errors of one step must not catch this one. Only
    `holdfast_train.restart_in_place` does.
    """


class Agreement(Protocol):
    """What the ranks of one Run agree by: it is there as long as its Run is, and the loop waits for it at each step."""

    def abandon(self, error: BaseException) -> None:
        """Raise `error` where the loop waits, or comes next."""

    def close(self) -> None:
        """End its threads."""


_lock: Final = threading.Lock()
_agreements: Final["weakref.WeakSet[Agreement]"] = weakref.WeakSet()


def watch(agreement: Agreement) -> None:
    """A Run of this process begins."""
    with _lock:
        _agreements.add(agreement)


def agreements() -> Iterator[Agreement]:
    """Those of all Runs of this process that are still in memory."""
    with _lock:
        return iter(list(_agreements))


def end_attempt() -> None:
    """Raise AttemptOverError in the loop of each Run, when its step ends. Any thread may call it."""
    for agreement in agreements():
        agreement.abandon(AttemptOverError("the training starts again, because of another node"))
