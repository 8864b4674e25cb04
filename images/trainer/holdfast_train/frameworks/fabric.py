"""Lightning Fabric through `Run`: a loop over what `setup` returned, in the epochs and batches of `FabricRun`."""

from collections.abc import Mapping
from typing import Any

import torch

from holdfast_train.environment import is_in_pod
from holdfast_train.errors import StateError
from holdfast_train.format.program import Severity
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.epoch_run import EpochRun
from holdfast_train.frameworks.lightning_strategy import refuse_strategy
from holdfast_train.frameworks.own_objects import with_own
from holdfast_train.frameworks.position import Position, Shape


class FabricRun(EpochRun):
    """One training with Fabric. `loader` is the data loader of the training, from `setup_dataloaders`.

        from holdfast_train.frameworks.fabric import FabricRun

        model, optimizer = fabric.setup(model, optimizer)
        loader = fabric.setup_dataloaders(loader)
        with FabricRun(fabric, loader, model=model, optimizer=optimizer) as run:  # resumes here
            for epoch in run.epochs(3):
                for batch in run.batches():
                    ...
                    run.report(loss=loss)

    A step has `accumulate` batches; the last step of an epoch has those that are left. `is_accumulating` is False where
    the optimizer has to step. A step ends where the batch of the next step is read; on a notice the process ends there,
    with exit code 0. A checkpoint contains `objects` and the loss scaler; the other arguments are those of Run. Outside
    a Holdfast pod nothing is saved.
    """

    def __init__(
        self,
        fabric: Any,
        loader: Any,
        *,
        accumulate: int = 1,
        per_rank: Mapping[str, Stateful] | None = None,
        config: Any = None,
        rules: Mapping[str, Severity] | None = None,
        **objects: Stateful,
    ) -> None:
        if accumulate < 1:
            raise StateError(f"accumulate is {accumulate}; allowed: 1 or more batches in a step")
        self._loader, self._accumulate = loader, accumulate
        self._batches = 0  # of this epoch, that were read
        position: Position | None = None
        own: dict[str, Any] = {}
        if is_in_pod():
            refuse_strategy(fabric.strategy, fabric.world_size)
            base = _base_of(loader)
            position = Position(base, seed=torch.initial_seed() % 2**32, rank=fabric.global_rank)
            own["shape"] = Shape(
                processes=fabric.world_size,
                samples=len(base.dataset),
                batches_of_a_step=accumulate,
                batches_of_an_epoch=len(base),
            )
            if fabric.strategy.precision.state_dict():
                own["scaler"] = fabric.strategy.precision
        super().__init__(position, per_rank=per_rank, config=config, rules=rules, objects=with_own(own, objects))

    @property
    def is_accumulating(self) -> bool:
        """True if the batch that was read does not end a step: the optimizer must not step."""
        return not self._ends_step()

    def _goal(self, epochs: int) -> int:
        return int(epochs * -(-len(self._loader) // self._accumulate))

    def _loader_of_epoch(self) -> Any:
        self._loader._num_iter_calls = self._epoch  # the epoch that Fabric tells the sampler
        self._batches = 0
        if self._position is not None and self._resumed is not None:
            self._batches = self._position.batches
            self._position.begin_again(skip=True)
        elif self._position is not None:
            self._position.begin(self._epoch)
        return self._loader

    def _note_read(self) -> None:
        super()._note_read()
        self._batches += 1

    def _ends_step(self) -> bool:
        return self._batches % self._accumulate == 0 or self._ends_epoch()

    def _ends_epoch(self) -> bool:
        return bool(self._batches == len(self._loader))


def _base_of(loader: Any) -> Any:
    """The DataLoader of torch inside a loader of Fabric. StateError if there is no DataLoader, or has a state of its
    own."""
    base = getattr(loader, "_dataloader", None)
    if base is None:
        raise StateError(
            f"the data loader is a {type(loader).__name__}: give FabricRun one loader that fabric.setup_dataloaders "
            f"has returned"
        )
    if hasattr(base, "state_dict"):
        raise StateError(f"the data loader is a {type(base).__name__} with a state of its own: use a torch DataLoader")
    return base
