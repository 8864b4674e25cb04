"""`EpochRun`: a loop over the epochs and batches of a loader that a library has made."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from holdfast_train.data import rng
from holdfast_train.data_wait import DATA_WAIT
from holdfast_train.errors import StateError
from holdfast_train.format.program import Severity
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.own_objects import with_own
from holdfast_train.frameworks.position import Position
from holdfast_train.run.run import Run

END: Final = object()


class EpochRun:
    """One training. A step is a step of the optimizer: it ends where the batch of the next step is read.

    On a notice the process ends there, with exit code 0. `position`: that of the loader, None outside a pod. `objects`
    go into checkpoints. A class for a library says what a batch is read from, and which batch ends a step.
    """

    def __init__(
        self,
        position: Position | None,
        *,
        per_rank: Mapping[str, Stateful] | None,
        config: Any,
        rules: Mapping[str, Severity] | None,
        objects: Mapping[str, Any],
    ) -> None:
        self._position = position
        own = {} if position is None else {"data": position}
        self._run = Run(per_rank=with_own(own, per_rank), config=config, rules=rules, **objects)
        self._steps: Iterator[int] = iter(())
        self._epoch = 0
        self._is_read = False  # the batches of this epoch
        self._is_step_done = False
        self._resumed: dict[str, Any] | None = None  # the generators, until the first batch after a resume is read

    # What a library decides.

    def _goal(self, epochs: int) -> int:
        """The number of steps in `epochs`."""
        raise NotImplementedError

    def _loader_of_epoch(self) -> Any:
        """What gives the batches of this epoch that are left. The position begins here."""
        raise NotImplementedError

    def _ends_step(self) -> bool:
        """True if the batch that was read is the last one of a step."""
        raise NotImplementedError

    def _ends_epoch(self) -> bool:
        """True if the batch that was read is the last one of the epoch."""
        raise NotImplementedError

    # What the loop calls.

    def __enter__(self) -> Self:
        self._run.__enter__()
        if self._run.resumed_from is not None and self._position is not None:
            self._resumed = rng.capture()
            self._epoch = self._position.epoch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._end()
        except BaseException as found:
            self._run.__exit__(type(found), found, found.__traceback__)
            raise
        self._run.__exit__(kind, error, trace)

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._run.step

    @property
    def resumed_from(self) -> int | None:
        """The step of the checkpoint that was restored, None if there was none."""
        return self._run.resumed_from

    def report(self, loss: Any = None, samples: float = 0.0, metrics: Mapping[str, Any] | None = None) -> None:
        """Note the loss of this step, its samples and metrics, as `Run.report`."""
        self._run.report(loss, samples, metrics)

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs that are left of `count`. The first one may be the rest of an epoch."""
        self._steps = self._run.steps(self._goal(count))
        if self._count():
            for epoch in range(self._epoch, count):
                self._epoch, self._is_read = epoch, False
                yield epoch
        self._end()

    def batches(self) -> Iterator[Any]:
        """The batches of this epoch, from the prepared loader. After a resume, those that were not trained."""
        if self._is_read:
            raise StateError("run.batches() was called twice in one epoch: begin a new epoch of run.epochs() before it")
        self._is_read = True
        self._is_step_done = self._is_step_done or self._run.has_stepped  # the epoch before was left by `break`
        batches = DATA_WAIT.iterator(iter(self._loader_of_epoch()))
        while not self._is_step_done or self._count():
            batch = next(batches, END)
            if batch is END:
                return
            self._note_read()
            yield batch
            self._is_step_done = self._ends_step()
            if self._ends_epoch():
                next(batches, None)  # accelerate notes the end
                return  # the step ends with the epoch: what follows the last batch, such as an evaluation, is of it

    def _end(self) -> None:
        """The loop is over, or the program has left it by `break`: training ends here, also if a notice has come."""
        self._run.finish()
        if self._is_step_done or self._run.has_stepped:
            self._count()

    def _note_read(self) -> None:
        if self._position is None:
            return
        if self._resumed is not None:
            self._position.check()
            if self._position.batches:  # otherwise the order of the epoch is drawn now, as it was before
                rng.restore(self._resumed)
            self._resumed = None
        self._position.batches += 1

    def _count(self) -> bool:
        """Count the step that is done. False if no other step is to be done. Ends the process after a notice."""
        self._is_step_done = False
        goes_on = next(self._steps, None) is not None
        if self._run.left:
            raise SystemExit(0)
        return goes_on
