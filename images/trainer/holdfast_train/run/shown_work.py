"""`ShownWork`: whether a program trains in the steps of its loop, or reads their numbers ahead."""

import sys
from collections.abc import Iterable
from typing import Any, Final

from holdfast_train.errors import StateError
from holdfast_train.say import say

VALUES: Final = 8  # of a parameter, that show whether it has changed
LOOP: Final = (
    "Write `for step in run.steps(goal):` or `for step, batch in zip(run.steps(goal), batches):` around the training "
    "itself, without list() and without a buffer, and fetch only the batches ahead. In a step that trains nothing, "
    "such as one that only gathers data, call run.report()"
)


class ShownWork:
    """What the first steps of a process have shown. The program trains in its steps once one of them has shown it.

    `list(run.steps(goal))` takes the number of each step before the first one is trained. Counted, saved and completed,
    these steps would never be trained after a resume. So no checkpoint is made and no training is complete as long as
    all steps are blank: nothing was reported or saved in them, no optimizer has stepped, no gradient has come, and no
    parameter has changed. If then an optimizer steps outside of all steps, they were read ahead for certain.

    Later steps count in any case: one may pass over a batch, or gather data. But a loop may also drop the number of a
    step, as `zip(steps, loader)` does where the loader ends, if it goes on with the same iterator of steps. So the
    first blank step after a trained one is told of.

    Without `parameters` of optimizers that tell when they step, a blank step may be a trained one: a warning says so.
    """

    def __init__(self) -> None:
        self._is_shown = False
        self._blank = 0  # steps before the first one that has shown it
        self._parameters: list[Any] = []
        self._before: list[Any] = []  # their first values, before the first step
        self._has_told = False
        self._tells_blank = False  # of a step after the first one that was trained

    def begin_step(self, parameters: Iterable[Any]) -> None:
        """A step of the loop begins. `parameters`: some of those that the optimizers change, if all of these tell when
        they step; otherwise none."""
        if not self._is_shown and not self._parameters:
            self._parameters = list(parameters)
            self._before = [_values(parameter) for parameter in self._parameters]

    def end_step(self, step: int, *, is_seen: bool, is_blank: bool) -> None:
        """The number `step` is counted. `is_seen`: the program has done something in it that only training does, or has
        counted it itself. `is_blank`: nothing shows that it has done anything."""
        if self._is_shown:
            if is_blank and self._tells_blank:
                self._tells_blank = False
                say(
                    f"nothing shows that step {step} was trained: no optimizer has stepped, no gradient has come, and "
                    f"nothing was reported. It counts all the same. Where a loader ends, zip(steps, loader) drops the "
                    f"number of a step: call run.steps(goal) in each zip. In a step that trains nothing, call "
                    f"run.report()"
                )
            return
        if not is_seen and not self._has_changed():
            self._blank += 1
            return
        self._is_shown = True
        self._tells_blank = is_seen and bool(self._parameters)
        if self._blank and self._parameters:
            say(
                f"the program has trained nothing in the first {self._blank} steps of its loop. If it reads the steps "
                f"of run.steps ahead, they count before they are trained, and some are missing after a resume. {LOOP}"
            )
        self._parameters, self._before = [], []

    @property
    def is_missing(self) -> bool:
        """True if steps were counted, and it is certain that none of them was trained."""
        return bool(self._blank and self._parameters)

    def refuse_step_outside(self) -> None:
        """An optimizer steps outside of all steps of the loop. StateError if the program has read these ahead."""
        if self.is_missing:
            raise StateError(
                f"the program trains after it has read {self._blank} steps of run.steps, in which it has trained "
                f"nothing: it reads them ahead, as list(run.steps(goal)) does, and they count before they are trained. "
                f"{LOOP}"
            )

    def error_of_end(self) -> StateError | None:
        """Why a training that began at step 0 cannot end here: it is certain that none of its steps was trained."""
        if not self.is_missing:
            return None
        return StateError(
            f"the program has counted {self._blank} steps and trained none of them: no optimizer has stepped, no "
            f"parameter has changed, and nothing was reported. So the training is not complete. {LOOP}"
        )

    def tell_at_save(self) -> None:
        """A save is due. Say once if nothing shows that the steps up to it were trained."""
        if self._is_shown or not self._blank or self._has_told:
            return
        self._has_told = True
        if self._parameters:
            say(f"a save is due, and the program has trained nothing in its steps so far: the save waits. {LOOP}")
        else:
            say(
                "nothing shows whether the program trains in its steps: Run was given no optimizer of torch, or not "
                "every one, and nothing was reported. If it reads the steps of run.steps ahead, checkpoints have the "
                "state of other steps. Call run.report(loss=...) in each step"
            )

    def _has_changed(self) -> bool:
        torch: Any = sys.modules.get("torch")
        pairs = zip(self._parameters, self._before, strict=True)
        known = ((_values(parameter), before) for parameter, before in pairs)
        return any(now is not None and (before is None or not torch.equal(now, before)) for now, before in known)


def _values(parameter: Any) -> Any:
    """The bytes of the first values of `parameter`, or of its own shard if it is sharded. None if it has none yet."""
    torch: Any = sys.modules["torch"]
    if torch.nn.parameter.is_lazy(parameter):
        return None
    local = getattr(parameter, "_local_tensor", parameter).detach()
    return local.reshape(-1)[:VALUES].clone().view(torch.uint8)
