"""`StepBoundary`: whether the state of a program belongs to a whole number of steps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast_train.format.stateful import Counts, stepping_ones
from holdfast_train.run.accumulation import Accumulation, has_new_gradient, has_unused_gradient, version
from holdfast_train.run.other_optimizers import OtherOptimizers
from holdfast_train.run.shown_work import ShownWork
from holdfast_train.say import say


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
        self._hooks: list[Any] = []
        self._accumulations: list[Accumulation] = []  # of the optimizers, if all of them tell when they step
        self._others: OtherOptimizers | None = None

    def watch(self, objects: Mapping[str, Any]) -> None:
        """Notice the steps of the optimizers among `objects`, and of others that train a model among them."""
        self._others = OtherOptimizers(objects.values(), self.note_step)
        optimizers = {name: one for name, one in objects.items() if hasattr(one, "param_groups")}
        found = [(name, inner) for name, one in optimizers.items() for inner in stepping_ones([one])]
        self._hooks = [one.register_step_post_hook(self._note_hook) for _, one in found]
        self._sees_all = bool(found) and len(found) == len(optimizers)
        if self._sees_all:  # otherwise one may step, and nothing shows it
            self._accumulations = [Accumulation(name, one) for name, one in found]

    def close(self) -> None:
        """Remove the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()
        for one in self._accumulations:
            one.close()
        if self._others is not None:
            self._others.close()
        self._hooks, self._accumulations = [], []

    @property
    def _sampled(self) -> list[Any]:
        """Parameters of the optimizers, if all of these tell when they step."""
        return [parameter for one in self._accumulations for parameter in one.sampled]

    def note_step(self) -> None:
        """The steps of all optimizers are over. StateError if the program has read its steps ahead."""
        self._note_hook()
        for one in self._accumulations:
            one.note_step()

    def _note_hook(self, *_: Any) -> None:
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

        Gradients are being accumulated for one of the optimizers: see `Accumulation`. Or no step has shown that it was
        trained.
        """
        if self.work.is_missing:
            return "nothing shows that a step was trained"
        is_open = [one.is_open(self._since) for one in self._accumulations]  # each of them says what is wrong with it
        return "gradients are being accumulated" if any(is_open) else ""

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
        for one in self._accumulations:
            one.look()
        sampled = self._sampled
        is_seen = is_seen or any(map(has_new_gradient, sampled))
        is_blank = not is_seen and not any(map(has_unused_gradient, sampled))
        self.work.end_step(step, is_seen=is_seen, is_blank=is_blank)
        self._is_in_body = False
        if self._others is not None:
            self._others.end_step(step)
        for thing in self._counting:
            thing.trained(step)
        self._since = 0 if self._has_stepped else self._since + 1
        if self._since:
            self._is_in_parts = self._is_in_parts or any(map(has_unused_gradient, sampled))
        for one in self._accumulations:
            one.use()
        for one in self._accumulations:
            one.end_step(self._since)
        if self._is_in_parts:
            self._gradients = [*map(_gradient, sampled)]
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


def _gradient(parameter: Any) -> tuple[int, int] | None:
    """Another value after each change of the gradient."""
    return None if parameter.grad is None else (id(parameter.grad), version(parameter.grad))
