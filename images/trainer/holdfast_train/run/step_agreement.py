"""`StepAgreement`: ranks agree on a step after which they act together, and exchange nothing after all other steps."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Literal

from holdfast_train.errors import StateError
from holdfast_train.run.attempt_over import watch
from holdfast_train.timings import USUAL, Timings

ONE_WAIT: Final = timedelta(hours=1)  # for a key of the store; then the wait begins again
END: Final = b"end"
ALIKE: Final = (
    "all ranks of a training end after the same step. Let one rank decide, share its decision with "
    "torch.distributed.broadcast, and call run.finish() or leave the loop on every rank"
)
PAUSES: Final = 0.001, 0.1  # seconds between two looks at a meeting, from the first to the last ones
Purpose = Literal["act", "end", "fail"]


class StepAgreement:
    """Finds the first step that no rank has finished yet, whenever a rank asks for it.

    All ranks then act after that step: they save, or leave. The question goes through the store of the process group,
    and a thread of each rank answers it with the steps that its rank has done. So a rank that evaluates for hours
    delays no answer, and the ranks act at the end of the step in which one of them asked. A rank that has answered
    begins no further step before the agreed one is known.

    Ranks that act, or end their training, meet before it (`meet`): otherwise a rank that has ended alone would wait for
    the others without end, and they for it.

    `store` makes a new connection to the store. With one rank there is no store, and every step is agreed. `must_leave`
    tells that this rank has a notice, of which little time is left.
    """

    def __init__(
        self,
        rank: int = 0,
        size: int = 1,
        store: Callable[[], Any] = lambda: None,
        must_leave: Callable[[], bool] = bool,
        timings: Timings = USUAL,
    ) -> None:
        self._rank, self._size = rank, size
        self._must_leave = must_leave
        self._timings = timings
        self._changed = threading.Condition()
        # Not an Event: a signal handler must be able to ask while its own thread waits here. False: ask no more.
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._round = 0
        self._is_open = False  # this rank has answered, and the step is not known yet
        self._done = 0
        self._agreed: list[int] = []  # steps to come
        self._error: BaseException | None = None
        self._is_started = self._is_closed = False
        self._meetings = 0  # that this rank has come to
        # A connection for each thread: a wait on one blocks all that use it.
        self._answering, self._asking, self._meeting = store(), store(), store()
        self._threads = [
            threading.Thread(target=self._run, args=(task,), name="holdfast-agreement", daemon=True)
            for task in (self._answer_all, self._ask_all)
        ]

    def start(self, step: int, *, agreed: bool) -> None:
        """Begin after `step` steps. `agreed`: the ranks act after the first step; the same on all ranks."""
        if self._size > 1:
            self._done = step
            self._agreed = [step + 1] if agreed else []
            watch(self)
            self._is_started = True
            for thread in self._threads:
                thread.start()

    def is_agreed(self, step: int) -> bool:
        """True if the ranks act now, after `step` steps. Call it once after every step.

        An error of the store is raised here. ConnectionError if this rank has to leave and another does not answer.
        """
        if self._size == 1:
            return True
        with self._changed:
            self._wait_until(lambda: not self._is_open)
            self._done = step
            if not self._agreed or self._agreed[0] > step:
                return False
            self._agreed.pop(0)
            return True

    def ask(self) -> None:
        """Ask for a step, without a wait. Any thread and any signal handler may call it."""
        if self._size > 1:
            self._requests.put(True)

    def ask_and_wait(self) -> None:
        """Ask for a step, and return when it is known. Errors: as `is_agreed`."""
        if self._size == 1:
            return
        with self._changed:
            if not self._agreed:
                self.ask()
            self._wait_until(lambda: bool(self._agreed))

    def meet(self, purpose: Purpose, step: int) -> None:
        """Return when every rank has come, after `step` steps of its own, to act or to end its training. For an end the
        others are asked for a step, so that they come too if they go on.

        StateError on all of them if some act and others end. ConnectionError if a rank has failed. Other errors: as
        `is_agreed`.
        """
        if not self._is_started:
            return
        if purpose == "end":
            self.ask()
        number = self._come(purpose, step)
        begun, (pause, longest) = time.monotonic(), PAUSES
        while not self._meeting.check([f"meeting {number}"]):
            with self._changed:
                self._changed.wait_for(lambda: self._error is not None, pause)
            if self._error is not None:
                raise self._error
            self._check_leave(begun)
            pause = min(2 * pause, longest)
        there = self._at_meeting(number)
        if {"end"} <= {one for _, one, _ in there} <= {"act", "end"}:
            self._part(number)
        self._compare(there)

    def fail(self, step: int) -> str:
        """Let no rank wait for this one, whose training has failed. Return which rank has ended its training alone,
        empty if none has. Takes at most `Timings.close`: the node of the store may be silent."""
        if not self._is_started or self._error is not None:
            return ""
        ended: list[str] = []

        def come() -> None:
            with contextlib.suppress(RuntimeError):  # the store has ended
                ended.extend(_who(*one) for one in self._at_meeting(self._come("fail", step)) if one[1] == "end")

        thread = threading.Thread(target=come, name="holdfast-fail", daemon=True)
        thread.start()
        thread.join(self._timings.close)
        return ended[0] if ended else ""

    def abandon(self, error: BaseException) -> None:
        """Raise `error` in each method that waits now, and in each that is called from now on."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads of all ranks. Call it when no rank will ask any more."""
        if self._size == 1:
            return
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._requests.put(False)
        if not self._threads[0].is_alive():
            return
        self._threads[1].join(self._timings.close)
        end = time.monotonic() + self._timings.close
        with contextlib.suppress(RuntimeError):  # the store has ended, and with it the threads of the other ranks
            while self._threads[0].is_alive() and time.monotonic() < end:
                for key in ("asked", "agreed"):
                    self._asking.set(f"{self._round}/{key}", END)
                self._threads[0].join(self._timings.close / 10)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not self._changed.wait_for(lambda: condition() or self._error is not None, self._timings.other_ranks):
            self._check_leave(begun)
        if self._error is not None:
            raise self._error

    def _check_leave(self, begun: float) -> None:
        if self._must_leave() and time.monotonic() - begun >= self._timings.other_ranks:
            raise ConnectionError("must leave, and another rank does not answer: its process hangs or has ended")

    def _come(self, purpose: Purpose, step: int) -> int:
        """Come to the next meeting, and return its number. The last rank to come opens it, and drops the one before."""
        number, store = self._meetings, self._meeting
        self._meetings += 1
        store.set(f"meeting {number}/{self._rank}", f"{purpose} {step}")
        are_all = store.add(f"meeting {number}/count", 1) == self._size
        if are_all or purpose == "fail":
            store.set(f"meeting {number}", b"")
        for key in ("", "/count", *(f"/{rank}" for rank in range(self._size))) if are_all and number else ():
            store.delete_key(f"meeting {number - 1}{key}")
        return number

    def _at_meeting(self, number: int) -> list[tuple[int, str, int]]:
        """Of each rank that has come: the rank, for what, and after how many steps."""
        there = [rank for rank in range(self._size) if self._meeting.check([f"meeting {number}/{rank}"])]
        said = [self._meeting.get(f"meeting {number}/{rank}").decode().split() for rank in there]
        return [(rank, purpose, int(step)) for rank, (purpose, step) in zip(there, said, strict=True)]

    def _part(self, number: int) -> None:
        """Say that this rank has read who came, and will not need the store. Rank 0 waits until all have: its process,
        which may serve the store, ends soon.
        """
        key, until = f"meeting {number}/read", time.monotonic() + self._timings.close
        self._meeting.add(key, 1)
        while self._rank == 0 and self._meeting.add(key, 0) < self._size and time.monotonic() < until:
            time.sleep(PAUSES[0])

    def _compare(self, there: list[tuple[int, str, int]]) -> None:
        by_purpose = {purpose: (rank, purpose, step) for rank, purpose, step in reversed(there)}
        if failed := by_purpose.get("fail"):
            raise ConnectionError(f"{_who(*failed)}: connection closed by peer")
        if len(by_purpose) > 1:
            raise StateError(f"{_who(*by_purpose['end'])}, and {_who(*by_purpose['act'])}: {ALIKE}")

    # In threads.

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except RuntimeError as error:  # of the store: the process that serves it has ended
            with self._changed:
                self._error = self._error if self._is_closed else self._error or error
                self._changed.notify_all()

    def _ask_all(self) -> None:
        while self._requests.get():
            with self._changed:
                # An open question may have been answered before this request: it is for the next one.
                self._changed.wait_for(lambda: not self._is_open or self._is_closed)
                if self._is_closed:
                    return
                key = f"{self._round}/asked"
            self._asking.set(key, b"")

    def _answer_all(self) -> None:
        while self._value(f"{self._round}/asked") != END:
            with self._changed:
                self._is_open = True
                done = max(self._done, *self._agreed, 0)
            self._answer(str(done))
            agreed = self._value(f"{self._round}/agreed")
            with self._changed:
                self._is_open = False
                self._round += 1
                if agreed != END:
                    self._agreed.append(int(agreed))
                self._changed.notify_all()
            if agreed == END:
                return

    def _answer(self, done: str) -> None:
        """Give this rank's answer. The last rank to answer tells the result, and deletes the keys before."""
        store, number = self._answering, self._round
        store.set(f"{number}/{self._rank}", done)
        if store.add(f"{number}/count", 1) < self._size:
            return
        answers = [int(answer) for answer in store.multi_get([f"{number}/{rank}" for rank in range(self._size)])]
        store.set(f"{number}/agreed", str(max(answers) + 1))
        for key in ("asked", "agreed", "count", *range(self._size)) if number else ():
            store.delete_key(f"{number - 1}/{key}")

    def _value(self, key: str) -> bytes:
        while True:
            try:
                self._answering.wait([key], ONE_WAIT)
            except RuntimeError:
                if not self._answering.check([key]):  # it fails again if the store has ended
                    continue
            value: bytes = self._answering.get(key)
            return value


def _who(rank: int, purpose: str, step: int) -> str:
    does = {"act": "goes on after", "end": "has ended its training after", "fail": "has failed after"}[purpose]
    return f"rank {rank} {does} step {step}"
