"""`OtherOptimizers`: optimizers of torch that train in this process, and schedules, that Run was not given."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast_train.data.values import Values
from holdfast_train.format.stateful import of_program, stepping, stepping_ones
from holdfast_train.say import say

MANY: Final = 16  # steps in which only an optimizer of unknown parameters steps: an inner loop is not meant by it


class OtherOptimizers:
    """Says once if a step is trained by an optimizer that Run was not given.

    No checkpoint has the state of such an optimizer, or the parameters that it trains, so a resume goes on with others.
    That is so if a program replaces its optimizer or its model for another phase, or gives Run a model alone. An
    optimizer of an inner loop, as for an adversarial batch, steps in the same steps as those of Run.

    Says once, too, if an optimizer of Run has a schedule of torch, and Run was given none for it: a resume begins that
    schedule at its first step. torch marks an optimizer that has one, and nothing leads to the schedule.

    `on_step` is called after each step of one that trains a model of Run. Nothing is said of objects of the program
    itself: they may contain any optimizer.
    """

    def __init__(self, objects: Iterable[Any], on_step: Callable[[], None]) -> None:
        self._objects, self._on_step = tuple(objects), on_step
        self._known = {id(one) for one in stepping_ones(self._objects)}
        self._parameters: set[int] | None = None  # the ids of those of the models
        self._has_known, self._other = False, None  # that have stepped since the last counted step
        self._alone = 0
        self._is_over = any(not isinstance(one, Values) for one in of_program(self._objects))
        optimizers = [] if self._is_over else stepping_ones(self._objects)
        schedules = [one for one in self._objects if not hasattr(one, "param_groups")]
        scheduled = {id(stepping(getattr(one, "scheduler", one))) for one in schedules}  # accelerate wraps schedules
        self._unscheduled = [one for one in optimizers if id(one) not in scheduled]
        optim: Any = sys.modules.get("torch.optim.optimizer")
        self._hook = None if optim is None else optim.register_optimizer_step_post_hook(self._note)

    def close(self) -> None:
        """Notice no more steps."""
        if self._hook is not None:
            self._hook.remove()

    def end_step(self, step: int) -> None:
        """The number `step` is done."""
        self._tell_schedule()
        other, has_known, self._other, self._has_known = self._other, self._has_known, None, False
        if has_known or self._is_over:
            self._alone = 0
        elif other is not None:
            self._alone += 1
            self._tell(other, step)

    def _note(self, optimizer: Any, *_: Any) -> None:
        if id(optimizer) in self._known:
            self._has_known = True
            return
        self._other = optimizer
        if self._trains_ours(optimizer):
            self._on_step()

    def _trains_ours(self, optimizer: Any) -> bool:
        if self._parameters is None:
            module = sys.modules["torch"].nn.Module
            models = [one for one in self._objects if isinstance(one, module)]
            self._parameters = {id(parameter) for model in models for parameter in model.parameters()}
        return any(id(one) in self._parameters for group in optimizer.param_groups for one in group["params"])

    def _tell_schedule(self) -> None:
        for optimizer in self._unscheduled:
            if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
                self._unscheduled = []
                say(
                    f"an optimizer ({type(optimizer).__name__}) has a schedule that Run was not given: its position "
                    f"will be in no checkpoint, and a resume begins it at its first step. Give it to Run as well, such "
                    f"as schedule=schedule"
                )
                return

    def _tell(self, optimizer: Any, step: int) -> None:
        is_ours = self._trains_ours(optimizer)
        if not optimizer.state if is_ours else self._alone < MANY:
            return
        lacks = "its state" if is_ours else "the parameters that it trains"
        self._is_over = True
        say(
            f"an optimizer ({type(optimizer).__name__}) that Run was not given has trained step {step}: {lacks} will "
            f"be in no checkpoint, and a resume goes on without. Give Run the models and optimizers of all phases at "
            f"its start, and change param_groups in place of making another optimizer"
        )
