"""Accelerate through `Run`: a loop over what `prepare` returned, in the epochs and batches of `AcceleratedRun`."""

import sys
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from holdfast_train.data import rng
from holdfast_train.environment import Environment
from holdfast_train.errors import StateError
from holdfast_train.format.program import Severity
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.position import Position, Shape
from holdfast_train.frameworks.prepared import base_of, refuse_distribution
from holdfast_train.run.run import Run

__all__ = ["AcceleratedRun"]

END: Final = object()


class AcceleratedRun:
    """One training with Accelerate. `loader` is the prepared data loader of the training.

        from holdfast_train.frameworks.accelerate import AcceleratedRun

        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
        with AcceleratedRun(accelerator, loader) as run:  # resumes here
            for epoch in run.epochs(3):
                for batch in run.batches():
                    with accelerator.accumulate(model):
                        ...
                    run.report(loss=loss)

    A checkpoint contains all that `prepare` and `register_for_checkpointing` were given, the loss scaler, and
    `objects`; the other arguments are those of Run. A step is a step of the optimizer: it ends where the batch of the
    next step is read. On a notice the process ends there, with exit code 0. Outside a Holdfast pod nothing is saved.
    """

    def __init__(
        self,
        accelerator: Any,
        loader: Any,
        *,
        per_rank: Mapping[str, Stateful] | None = None,
        config: Any = None,
        rules: Mapping[str, Severity] | None = None,
        **objects: Stateful,
    ) -> None:
        self._accelerator, self._loader = accelerator, loader
        self._position: Position | None = None
        own: dict[str, Any] = _prepared(accelerator)
        per_rank = dict(per_rank or {})
        if Environment.read() is not None:
            refuse_distribution(accelerator)
            seed = sys.modules["torch"].initial_seed() % 2**32
            self._position = Position(base_of(loader), seed=seed, rank=accelerator.process_index)
            own["shape"] = Shape(
                processes=accelerator.num_processes,
                samples=len(loader.dataset),
                samples_of_a_batch=loader.total_batch_size,
                batches_of_a_step=accelerator.gradient_accumulation_steps,
                batches_of_an_epoch=len(loader),
            )
            per_rank["data"] = self._position
        for name in own.keys() & objects.keys():
            raise StateError(f"{name!r} is the name of an object that accelerate has prepared: choose another name")
        own |= objects
        self._run = Run(per_rank=per_rank, config=config, rules=rules, **own)
        self._steps: Iterator[int] = iter(())
        self._epoch = 0
        self._is_read = False  # the batches of this epoch
        self._is_step_done = False
        self._resumed: dict[str, Any] | None = None  # the generators, until the first batch after a resume is read

    def __enter__(self) -> Self:
        self._run.__enter__()
        if self._run.resumed_from is not None and self._position is not None:
            self._resumed = rng.capture()
            self._epoch = self._position.epoch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._is_step_done:  # the program has left its loop by `break`
            self._count()
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
            if self._is_step_done:
                self._count()

    def batches(self) -> Iterator[Any]:
        """The batches of this epoch, from the prepared loader. After a resume, those that were not trained."""
        if self._is_read:
            raise StateError("run.batches() was called twice in one epoch: begin a new epoch of run.epochs() before it")
        self._is_read = True
        batches = iter(self._begin())
        while not self._is_step_done or self._count():
            batch = next(batches, END)
            if batch is END:
                return
            self._note_read()
            yield batch
            self._is_step_done = self._accelerator.sync_gradients
            if self._accelerator.gradient_state.end_of_dataloader:
                next(batches, None)  # accelerate notes the end
                return  # the step ends with the epoch: what follows the last batch, such as an evaluation, is of it

    def _goal(self, epochs: int) -> int:
        every, batches = self._accelerator.gradient_accumulation_steps, len(self._loader)
        if self._accelerator.gradient_state.sync_with_dataloader:
            return int(epochs * -(-batches // every))
        return int(epochs * batches // every)

    def _begin(self) -> Any:
        """The loader of this epoch, or of the rest of it."""
        self._loader.set_epoch(self._epoch)
        if self._position is None:
            return self._loader
        if self._resumed is None:
            self._position.begin(self._epoch)
            return self._loader
        self._position.begin_again()
        return sys.modules["accelerate"].skip_first_batches(self._loader, self._position.batches)

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


def _prepared(accelerator: Any) -> dict[str, Any]:
    """What `accelerator` has prepared, by names that depend on the order alone."""
    found: dict[str, Any] = {}
    kinds = {
        "model": accelerator._models,
        "optimizer": accelerator._optimizers,
        "schedule": accelerator._schedulers,
        "registered": accelerator._custom_objects,
    }
    for kind, things in kinds.items():
        found |= {f"{kind}{number or ''}": thing for number, thing in enumerate(things)}
    if (scaler := getattr(accelerator, "scaler", None)) is not None:
        found["scaler"] = scaler
    return found
