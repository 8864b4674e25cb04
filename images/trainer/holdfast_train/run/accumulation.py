"""`Accumulation`: whether gradients have come for one optimizer, and no optimizer has used them."""

from collections.abc import Callable
from typing import Any, Final

from holdfast_train.say import say

LONGEST: Final = 1000  # steps of the Run, in one accumulation of gradients that a save waits for
BESIDE: Final = 64  # the same, while other optimizers step
SAMPLED: Final = 16  # parameters of an optimizer whose gradients show whether an accumulation has begun
USED: Final = "_holdfast_used"  # on a gradient: its version when an optimizer had used it
WAITS: Final = "_holdfast_waits"  # on a gradient: it was there at the end of a step, and no optimizer had used it
LATE: Final = "_holdfast_late"  # on a gradient: it has come in a step after its optimizer had stepped in it


class Accumulation:
    """The gradients of one optimizer, which Run was given as `name`, seen at a few of its parameters (`sampled`).

    No checkpoint has gradients. So a step is not a place for a save if it ends with gradients that have come since the
    optimizer has stepped, and that its next step uses. It does not use those that are dropped before, as by
    `model.zero_grad()`: this is seen at the next step.

    A program may give its optimizer parameters that get no gradient, as those of a frozen backbone. They show nothing:
    `sampled` are others as soon as there are any.
    """

    def __init__(self, name: str, optimizer: Any) -> None:
        self._name, self._optimizer = name, optimizer
        self.sampled = self._spread(lambda parameter: parameter.requires_grad) or self._spread(lambda _: True)
        self._has_stepped = False  # since the last counted step
        self._had_unused = False  # at the end of the last step
        self._is_dropped = False  # what was there then is not there any more
        self._had_late = False  # at the end of the last step
        self._uses_late = True  # until a step has shown that it does not
        self._open = 0  # steps in a row that have ended with such gradients
        self._has_told = False
        hooks = optimizer.register_step_pre_hook(self._begin), optimizer.register_step_post_hook(self.note_step)
        self._hooks: list[Any] = [*hooks]

    def close(self) -> None:
        """Remove the hooks from the optimizer."""
        for hook in self._hooks:
            hook.remove()

    def note_step(self, *_: Any) -> None:
        """The optimizer has stepped."""
        self.look()
        self._has_stepped = True
        for gradient in self._gradients():
            setattr(gradient, USED, version(gradient))
            setattr(gradient, LATE, False)

    def look(self) -> None:
        """A step is about to be counted. Sample parameters that have gradients, if those that are sampled have none."""
        if not self._has_stepped and not self._gradients():
            self.sampled = self._spread(lambda parameter: parameter.grad is not None) or self.sampled

    def use(self) -> None:
        """A step is counted. Its gradients are used if the optimizer has stepped in it, unless they are late.

        The loss of another model leaves gradients too. They are late only if those before them were dropped after the
        optimizer had stepped: otherwise its next step drops them, with those that it has used.
        """
        gradients = self._gradients()
        for gradient in gradients if self._has_stepped else ():
            if not hasattr(gradient, USED):
                setattr(gradient, LATE, True)
            setattr(gradient, USED, version(gradient))
        self._had_late = any(getattr(gradient, LATE, False) for gradient in gradients)

    def end_step(self, since: int) -> None:
        """The step is counted, and `use` was called for all optimizers: some have parameters in common. `since`: as in
        `is_open`.

        Other gradients in place of those that have waited are a sum that is not made in place, if a graph made them or
        if no optimizer has stepped. Otherwise it was the step of another optimizer that the program dropped some for.
        """
        unused = [one.grad for one in self.sampled if has_new_gradient(one)]
        is_kept = since > 0 or any(hasattr(one, WAITS) or one.requires_grad for one in unused)
        was_dropped = self._had_unused and bool(unused) and not is_kept
        self._is_dropped = not self._has_stepped and (self._is_dropped or was_dropped)
        for gradient in unused:
            setattr(gradient, WAITS, True)
        self._had_unused = bool(unused)
        has_come = not self._has_stepped and any(map(has_unused_gradient, self.sampled)) and not self._is_dropped
        is_open = has_come or (self._had_late and self._uses_late)
        self._open = self._open + 1 if is_open else 0
        self._has_stepped = False

    def is_open(self, since: int) -> bool:
        """True if a save has to wait for this optimizer. `since`: counted steps since any optimizer has stepped.

        After LONGEST steps in a row, or BESIDE if others step, it waits no longer.
        """
        if self._open < (LONGEST if self._open <= since else BESIDE):
            return self._open > 0
        if not self._has_told:
            self._has_told = True
            say(
                f"each of the last {self._open} steps has ended with gradients that {self._name!r} has not used: "
                f"checkpoints do not wait for its step any more, and have no gradients, so a resume may not be exact. "
                f"If gradients are accumulated over more steps, count fewer steps. If the loss of another model leaves "
                f"them, call zero_grad of {self._name!r} before the backward pass of its own loss"
            )
        return False

    def _begin(self, *_: Any) -> None:
        if self._had_late:
            self._uses_late = any(getattr(gradient, LATE, False) for gradient in self._gradients())

    def _spread(self, counts: Callable[[Any], bool]) -> list[Any]:
        """At most SAMPLED of the parameters that count, from the first to the last ones."""
        every = [one for group in self._optimizer.param_groups for one in group["params"] if counts(one)]
        return every[:: -(-len(every) // SAMPLED) or 1]

    def _gradients(self) -> list[Any]:
        return [one.grad for one in self.sampled if one.grad is not None]


def has_unused_gradient(parameter: Any) -> bool:
    """True if a gradient may have come since the last step of the optimizer.

    A sharded parameter may have one that is not in `grad`: FSDP keeps it elsewhere until the ranks add theirs up.
    """
    return hasattr(parameter, "placements") if parameter.grad is None else has_new_gradient(parameter)


def has_new_gradient(parameter: Any) -> bool:
    """True if `parameter` has a gradient that no optimizer has used."""
    grad = parameter.grad
    return grad is not None and bool(getattr(grad, USED, None) != version(grad))


def version(gradient: Any) -> int:
    """How often `gradient`, or another tensor, was changed in place. A sharded one counts those of its own shard."""
    return int(getattr(gradient, "_local_tensor", gradient)._version)
