"""`StepBoundary`: whether the state of a program belongs to a whole number of steps."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast_train.format.stateful import Counts, stepping_ones
from holdfast_train.say import say

__all__ = ["StepBoundary"]


class StepBoundary:
    """Knows when training is inside a step, and remembers a save that was asked for there.

    The state that a checkpoint of step n contains must be that of n steps. Inside a step some of it has changed
    (generators, data, then the optimizer's parameters) and the rest has not. `on_begin` is called when a step may
    begin, once or twice before each step.
    """

    def __init__(self, objects: Iterable[Any], on_begin: Callable[[], None] = lambda: None) -> None:
        self._on_begin = on_begin
        self._counting = [thing for thing in objects if isinstance(thing, Counts)]
        self._is_in_body = False
        self._has_stepped = False  # an optimizer has stepped since the last step was counted
        self._is_put_off = False
        self._has_said = False
        self._hooks: list[Any] = []

    def watch(self, objects: Iterable[Any]) -> None:
        """Notice the steps of the optimizers among `objects`."""
        self._hooks = [one.register_step_post_hook(self._after_step) for one in stepping_ones(objects)]

    def close(self) -> None:
        """Remove the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    @property
    def has_stepped(self) -> bool:
        """True if an optimizer has stepped, and the step is not counted: the program left its loop by `break`."""
        return self._has_stepped

    @contextmanager
    def body(self) -> Iterator[None]:
        """The body of a loop over steps, to its end or to the end of the loop."""
        self._is_in_body = True
        self._on_begin()
        try:
            yield
        finally:
            self._is_in_body = False

    def reach(self, step: int) -> bool:
        """The number `step` is done; what counts steps learns of it. True if a save was put off until now."""
        for thing in self._counting:
            thing.trained(step)
        was_put_off, self._is_put_off, self._has_stepped = self._is_put_off, False, False
        self._on_begin()
        return was_put_off

    def put_off(self, step: int) -> bool:
        """True if training is inside a step, of which `step` are done: a save is put off to its end."""
        if not (self._is_in_body or self._has_stepped):
            return False
        self._is_put_off = True
        if not self._has_said:
            self._has_said = True
            say(f"run.save() was called inside a step, after {step} steps: it saves at the end of the step")
        return True

    def _after_step(self, *_: Any) -> None:
        self._has_stepped = True
