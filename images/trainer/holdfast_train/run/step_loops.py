"""`StepLoops`: which loop over the steps of a Run is the present one, whether another may begin, how one is left."""

import os
import threading
from collections.abc import Callable, Iterable

from holdfast_train.errors import HoldfastTrainError, StateError
from holdfast_train.format.stateful import of_program
from holdfast_train.run.step_boundary import StepBoundary
from holdfast_train.say import say


class StepLoops:
    """The loops over steps that a program writes, one after the other, and the step in which it left the last one.

    A goal counts all steps of a training, also those of earlier attempts. A program that takes it for the steps of one
    epoch would have completed its training after the first one. And a loop over `range(epochs)` begins at its first
    epoch again in an attempt that resumes. So a second loop has a larger goal than the first one, or the program has
    asked `should_stop` before it.

    A program may leave a loop inside a step: by `break`, or by `zip(loader, run.steps(...))` where the loader ends.
    That step is counted at once if the program has trained it, with `count`; what follows a step, such as a save, is
    done when the program begins another one.

    A loop without `run.steps` has to ask where training is: `for epoch in range(epochs)` begins at its first epoch
    again in an attempt that resumes, and would train all its steps once more.
    """

    def __init__(self, boundary: StepBoundary, count: Callable[[], None]) -> None:
        self._boundary, self._count = boundary, count
        self._number = 0
        self._goal: float = -1  # of the newest loop; above all numbers if it has none
        self._may_go_on = False  # the program has asked whether it has to stop, and it has not
        self._left_step: bool | None = False  # True: the step in which a loop was left is counted; None: nobody knows
        self._knows_place = False  # the program has asked how many steps are done, or its loops are those of run.steps
        self._error: HoldfastTrainError | None = None  # to be raised where the program calls the Run next
        self.enter()

    def enter(self) -> None:
        """The Run is entered, in this thread of this process."""
        self._process, self._thread = os.getpid(), threading.get_ident()

    @property
    def is_forked(self) -> bool:
        """True in a process that the program has forked."""
        return os.getpid() != self._process

    def note_asked(self, *, should_stop: bool) -> None:
        """The program has asked `should_stop`, and this is the answer."""
        self._may_go_on = not should_stop

    def note_place_asked(self) -> None:
        """The program has asked how many steps are done, or whether a goal that the Run knows is reached."""
        self._knows_place = True

    def check_place(self, *, resumed_from: int | None, objects: Iterable[object]) -> None:
        """A step is counted outside of all loops over steps. Say once if the program does not know where training is:
        it has not asked, and none of its `objects` can tell it."""
        if self._knows_place or of_program(objects):
            return
        self._knows_place = True
        effect = (
            "an attempt that resumes would begin this loop at its first step again, and train too many"
            if resumed_from is None
            else f"{resumed_from} steps are done, and if the loop begins at its first step again, it trains too many"
        )
        say(
            f"the program counts its steps with run.advance(), and has not asked run.step or run.resumed_from before "
            f"the first one: {effect}. Write `while run.step < steps and not run.should_stop:`, or begin at epoch "
            f"run.step // steps_of_an_epoch"
        )

    def check_reader(self) -> None:
        """StateError where another thread or process than the one that has entered the Run asks for a step.

        The error is kept too: the thread of a program may drop it, and the program may end as if it had trained.
        """
        if self.is_forked or threading.get_ident() != self._thread:
            self._error = StateError(
                "run.steps is read in another thread or process than the one that has entered the Run, as if batches "
                "were fetched ahead: steps would be counted before they are trained. Write "
                "`zip(run.steps(goal), batches)` in the loop itself, and fetch only the batches ahead"
            )
            raise self._error

    def begin(self, goal: int | None) -> int:
        """The number of the loop that begins. StateError if it may not begin."""
        known, self._goal = self._goal, float("inf") if goal is None else goal
        if self._goal <= known and not self._may_go_on:
            raise StateError(
                f"run.steps({'' if goal is None else goal}) was called again without a larger goal, and the program "
                f"has not asked run.should_stop before it. A goal counts all steps of the training, not those of one "
                f"epoch, and a resumed training begins in the middle of them. Write `while not run.should_stop:` in "
                f"place of `for epoch in range(epochs):`, or run.steps((epoch + 1) * steps_of_an_epoch) inside it"
            )
        self._number += 1
        self._knows_place = True
        return self._number

    def begin_step(self, loop: int) -> None:
        """`loop` asks for its next step. StateError if another loop has begun since, or as `check_reader`."""
        self.check_reader()
        if loop != self._number:
            raise StateError(
                "a loop over run.steps goes on after another one has begun: steps would be counted twice. Use one loop "
                "over run.steps at a time, and an ordinary loop over batches inside it"
            )
        self._may_go_on = False

    def leave(self, loop: int | None = None) -> None:
        """The program has left `loop`, if that is the present one (None: it is): count its step, if it was trained.

        An error is kept: Python drops one that a loop raises while it is closed.
        """
        if not self._boundary.is_in_body or self.is_forked or loop not in (None, self._number):
            return
        self._left_step = self._boundary.leave_body()
        try:
            if self._left_step:
                self._count()
        except HoldfastTrainError as error:
            self._error = error

    def take_left(self) -> bool:
        """True, once, if the step in which a loop was left is counted, and what follows it is to be done.

        An error of its count is raised here.
        """
        left, self._left_step = self._left_step, False
        if self._error is not None:
            raise self._error
        return bool(left)

    def take_known_left(self) -> bool:
        """As `take_left`. StateError if nothing shows whether the program has trained that step."""
        if self._left_step is None:
            raise StateError(
                "the program has left its loop over run.steps and begins another one, and nothing shows whether it has "
                "trained the step in which it left: Run was given no optimizer of torch, or not every one. Call "
                "run.report(loss=...) in each step"
            )
        return self.take_left()

    def end(self) -> HoldfastTrainError | None:
        """The Run is over: no loop is the present one any more. Return an error that was kept."""
        self.leave()
        self._number += 1
        return self._error
