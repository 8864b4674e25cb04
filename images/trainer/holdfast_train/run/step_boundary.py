"""`StepBoundary`: whether the state of a program belongs to a whole number of steps."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast_train.format.stateful import Counts, stepping_ones
from holdfast_train.run.other_optimizers import OtherOptimizers
from holdfast_train.run.shown_work import ShownWork
from holdfast_train.say import say

LONGEST: Final = 1000  # steps of the Run, in one accumulation of gradients that a save waits for
SAMPLED: Final = 16  # parameters of an optimizer whose gradients show whether an accumulation has begun
MARK: Final = "_holdfast_used"  # on a gradient: its version when an optimizer had used it


class StepBoundary:
    """Knows when training is inside a step, and remembers a save that was asked for there.

    The state that a checkpoint of step n contains must be that of n steps. Inside a step some of it has changed
    (generators, data, then the optimizer's parameters) and the rest has not. `on_begin` is called when a step may
    begin, once or twice before each step.

    A step that ends in the middle of an accumulation of gradients is not a place for a save either: no checkpoint has
    gradients. This is seen at the optimizers that `watch` was given, if all of them tell when they step. `work`: what
    the first steps have shown.
    """

    def __init__(self, objects: Iterable[Any], on_begin: Callable[[], None] = lambda: None) -> None:
        self._on_begin = on_begin
        self._counting = [thing for thing in objects if isinstance(thing, Counts)]
        self._is_in_body = False
        self._has_stepped = False  # an optimizer has stepped since the last step was counted
        self._has_report = False  # the program has reported something in this step
        self._has_loss, self._has_losses = False, False  # the program has reported one in this step, in any step
        self.work = ShownWork()
        self._sees_all = False  # each step of an optimizer
        self._is_in_parts = False  # a counted step was a part of an accumulation
        self._gradients: list[Any] = []  # what they were at the end of the last step, if steps are parts
        self.is_put_off = False  # a save that the program has asked for, until a step ends
        self._has_said = False
        self._has_told_outside = False
        self._since = 0  # steps that were counted since an optimizer stepped
        self._sampled: list[Any] = []
        self._hooks: list[Any] = []
        self._others: OtherOptimizers | None = None

    def watch(self, objects: Iterable[Any]) -> None:
        """Notice the steps of the optimizers among `objects`, and of others that train a model among them."""
        objects = list(objects)
        self._others = OtherOptimizers(objects, self.note_step)
        optimizers = [one for one in objects if hasattr(one, "param_groups")]
        found = stepping_ones(optimizers)
        self._hooks = [one.register_step_post_hook(self.note_step) for one in found]
        self._sees_all = bool(found) and len(found) == len(optimizers)
        if self._sees_all:  # otherwise one may step, and nothing shows it
            self._sampled = [parameter for one in found for parameter in _sample(one)]

    def close(self) -> None:
        """Remove the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()
        if self._others is not None:
            self._others.close()
        self._hooks, self._sampled = [], []

    def note_step(self, *_: Any) -> None:
        """An optimizer has stepped. Its hooks call this. StateError if the program has read its steps ahead."""
        if not self._is_in_body:
            self.work.refuse_step_outside()
        self._has_stepped = True

    @property
    def has_stepped(self) -> bool:
        """True if an optimizer has stepped, and the step is not counted: the program left its loop by `break`."""
        return self._has_stepped

    @property
    def obstacle(self) -> str:
        """Why no checkpoint may be made after the step that was counted, or in the one that runs; empty if it may.

        Gradients are being accumulated: they have come, and no optimizer has used them. After LONGEST such steps they
        are no obstacle any more: then none of the optimizers steps at all. Or no step has shown that it was trained.
        """
        if self.work.is_missing:
            return "nothing shows that a step was trained"
        if not self._since or not any(map(_has_unused_gradient, self._sampled)):
            return ""
        if self._since < LONGEST:
            return "gradients are being accumulated"
        say(
            f"there are gradients, and no optimizer that Run was given has stepped in {self._since} steps: checkpoints "
            f"do not wait for one any more. If gradients are accumulated over more steps, count fewer steps"
        )
        self._sampled = []
        return ""

    @property
    def is_in_body(self) -> bool:
        """True from `begin_body` until the step is counted, or its loop is left."""
        return self._is_in_body

    def begin_body(self) -> None:
        """The body of a loop over steps begins."""
        if self._has_stepped and not self._has_told_outside:
            self._has_told_outside = True
            say(
                "an optimizer has stepped outside of the loop over run.steps: this step has no number, and each "
                "attempt would do it again. Move it into the loop, or do it only `if run.resumed_from is None`"
            )
        self._is_in_body, self._has_stepped, self._has_report, self._has_loss = True, False, False, False
        self.work.begin_step(self._sampled)
        self._on_begin()

    def leave_body(self) -> bool | None:
        """The program has left its loop inside a step. True if it has trained that step; None if nothing shows it.

        The loop is left by `break`, and also by `zip(loader, run.steps(...))` where the loader ends.
        """
        self._is_in_body = False
        if self._sees_all:
            return self._has_stepped or (self._is_in_parts and self._gradients != [*map(_gradient, self._sampled)])
        return self._has_stepped or self._has_loss or (False if self._has_losses else None)

    def note_report(self, *, has_loss: bool) -> None:
        """The program has reported something in this step, maybe its loss."""
        self._has_report = True
        if has_loss:
            self._has_loss = self._has_losses = True

    def reach(self, step: int) -> None:
        """The number `step` is done; what counts steps learns of it."""
        is_seen = self._has_stepped or self._has_report or self.is_put_off or not self._is_in_body
        is_seen = is_seen or any(map(_has_new_gradient, self._sampled))
        is_blank = not is_seen and not any(map(_has_unused_gradient, self._sampled))
        self.work.end_step(step, is_seen=is_seen, is_blank=is_blank)
        self._is_in_body = False
        if self._others is not None:
            self._others.end_step(step)
        for thing in self._counting:
            thing.trained(step)
        if self._has_stepped:
            self._since = 0
            for parameter in self._sampled:
                if parameter.grad is not None:
                    setattr(parameter.grad, MARK, _version(parameter.grad))
        else:
            self._since += 1
            self._is_in_parts = self._is_in_parts or any(map(_has_unused_gradient, self._sampled))
        if self._is_in_parts:
            self._gradients = [*map(_gradient, self._sampled)]
        self._has_stepped = self._has_report = self._has_loss = False
        self._on_begin()

    @property
    def is_inside(self) -> bool:
        """True inside a step, and in an accumulation: a save has to wait."""
        return self._is_in_body or self._has_stepped or bool(self.obstacle)

    def take_put_off(self) -> bool:
        """True, once, if a save was put off until now."""
        was_put_off, self.is_put_off = self.is_put_off, False
        return was_put_off

    def put_off(self, step: int) -> None:
        """The program has asked for a save, which has to wait for the end of a step. `step` are done."""
        self.is_put_off = True
        if not self._has_said:
            self._has_said = True
            place, end = (
                ("inside a step", "the") if self.is_inside else ("between two steps of several ranks", "the next")
            )
            say(f"run.save() was called {place}, after {step} steps: it saves at the end of {end} step")


def _sample(optimizer: Any) -> list[Any]:
    """At most SAMPLED parameters of `optimizer`, spread over all of them."""
    every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return every[:: -(-len(every) // SAMPLED) or 1]


def _has_unused_gradient(parameter: Any) -> bool:
    """True if a gradient may have come since the last step of the optimizer.

    A sharded parameter may have one that is not in `grad`: FSDP keeps it elsewhere until the ranks add theirs up.
    """
    return hasattr(parameter, "placements") if parameter.grad is None else _has_new_gradient(parameter)


def _has_new_gradient(parameter: Any) -> bool:
    """True if `parameter` has a gradient that no optimizer has used."""
    grad = parameter.grad
    return grad is not None and bool(getattr(grad, MARK, None) != _version(grad))


def _gradient(parameter: Any) -> tuple[int, int] | None:
    """Another value after each change of the gradient."""
    return None if parameter.grad is None else (id(parameter.grad), _version(parameter.grad))


def _version(gradient: Any) -> int:
    """How often `gradient` was changed in place. A sharded one counts the changes of its own shard."""
    return int(getattr(gradient, "_local_tensor", gradient)._version)
