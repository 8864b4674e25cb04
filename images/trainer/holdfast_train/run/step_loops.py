"""`StepLoops`: which loop over the steps of a Run is the present one, and whether another one may begin."""

import threading

from holdfast_train.errors import StateError

__all__ = ["StepLoops"]


class StepLoops:
    """The loops over steps that a program writes, one after the other.

    A goal counts all steps of a training, also those of earlier attempts. A program that takes it for the steps of one
    epoch would have completed its training after the first one. And a loop over `range(epochs)` begins at its first
    epoch again in an attempt that resumes. So a second loop has a larger goal than the first one, or the program has
    asked `should_stop` before it.
    """

    def __init__(self) -> None:
        self._number = 0
        self._goal: float = -1  # of the newest loop; above all numbers if it has none
        self._may_go_on = False  # the program has asked whether it has to stop, and it has not

    def note_asked(self, *, should_stop: bool) -> None:
        """The program has asked `should_stop`, and this is the answer."""
        self._may_go_on = not should_stop

    def begin(self, goal: int | None, thread: int) -> int:
        """The number of the loop that begins, and that `thread` has made. StateError if it may not begin."""
        if threading.get_ident() != thread:
            raise StateError(
                "run.steps is read in another thread than the one that called it, as if batches were fetched ahead: "
                "steps would be counted before they are trained. Write `zip(run.steps(goal), batches)` in the loop "
                "itself, and fetch only the batches ahead"
            )
        known, self._goal = self._goal, float("inf") if goal is None else goal
        if self._goal <= known and not self._may_go_on:
            raise StateError(
                f"run.steps({'' if goal is None else goal}) was called again without a larger goal, and the program "
                f"has not asked run.should_stop before it. A goal counts all steps of the training, not those of one "
                f"epoch, and a resumed training begins in the middle of them. Write `while not run.should_stop:` in "
                f"place of `for epoch in range(epochs):`, or run.steps((epoch + 1) * steps_of_an_epoch) inside it"
            )
        self._number += 1
        return self._number

    def begin_step(self, loop: int) -> None:
        """`loop` asks for its next step. StateError if another loop has begun since."""
        if not self.is_present(loop):
            raise StateError(
                "a loop over run.steps goes on after another one has begun: steps would be counted twice. Use one loop "
                "over run.steps at a time, and an ordinary loop over batches inside it"
            )
        self._may_go_on = False

    def is_present(self, loop: int) -> bool:
        """True if no loop has begun after `loop`, and the Run is not over."""
        return loop == self._number

    def end(self) -> None:
        """The Run is over: no loop is the present one any more."""
        self._number += 1
