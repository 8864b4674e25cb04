"""Accelerate through `Run`: a loop over what `prepare` returned, in the epochs and batches of `AcceleratedRun`."""

import sys
from collections.abc import Mapping
from typing import Any

from holdfast_train.environment import is_in_pod
from holdfast_train.errors import StateError
from holdfast_train.format.program import Severity
from holdfast_train.format.stateful import Stateful
from holdfast_train.frameworks.batch_order import seed_evaluation
from holdfast_train.frameworks.epoch_run import EpochRun
from holdfast_train.frameworks.own_objects import with_own
from holdfast_train.frameworks.position import Position, Shape
from holdfast_train.frameworks.prepared import base_of, refuse_distribution


class AcceleratedRun(EpochRun):
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
        position: Position | None = None
        own: dict[str, Any] = _prepared(accelerator)
        self._own = frozenset(own)
        if is_in_pod():
            refuse_distribution(accelerator)
            _refuse_save_hooks(accelerator)
            seed = sys.modules["torch"].initial_seed() % 2**32
            position = Position(base_of(loader), seed=seed, rank=accelerator.process_index)
            for prepared in accelerator._dataloaders:
                other = getattr(prepared, "base_dataloader", prepared)
                seed_evaluation(other, seed=seed, rank=accelerator.process_index)
            own["shape"] = Shape(
                processes=accelerator.num_processes,
                samples=len(loader.dataset),
                samples_of_a_batch=loader.total_batch_size,
                batches_of_a_step=accelerator.gradient_accumulation_steps,
                batches_of_an_epoch=len(loader),
            )
        super().__init__(position, per_rank=per_rank, config=config, rules=rules, objects=with_own(own, objects))

    def _goal(self, epochs: int) -> int:
        if is_in_pod():
            self._refuse_later()
        every, batches = self._accelerator.gradient_accumulation_steps, len(self._loader)
        if self._accelerator.gradient_state.sync_with_dataloader:
            return int(epochs * -(-batches // every))
        return int(epochs * batches // every)

    def _refuse_later(self) -> None:
        """StateError if the accelerator was given something after this was made that a checkpoint needs. A model alone,
        without its optimizer, is not trained."""
        _refuse_save_hooks(self._accelerator)
        later = sorted(name for name in _prepared(self._accelerator).keys() - self._own if not name.startswith("model"))
        if later:
            raise StateError(
                f"{', '.join(later)} of the accelerator came after AcceleratedRun was made, and would be in no "
                f"checkpoint: call prepare and register_for_checkpointing before it"
            )

    def _loader_of_epoch(self) -> Any:
        self._loader.set_epoch(self._epoch)
        if self._position is None:
            return self._loader
        if self._resumed is None:
            self._position.begin(self._epoch)
            return self._loader
        self._position.begin_again()
        return sys.modules["accelerate"].skip_first_batches(self._loader, self._position.batches)

    def _ends_step(self) -> bool:
        return bool(self._accelerator.sync_gradients)

    def _ends_epoch(self) -> bool:
        return bool(self._accelerator.gradient_state.end_of_dataloader)


def _refuse_save_hooks(accelerator: Any) -> None:
    """StateError if hooks would add something to a checkpoint of accelerate, which nothing makes here."""
    for hook in accelerator._save_model_state_pre_hook.values():
        name = getattr(hook, "__qualname__", type(hook).__qualname__).rpartition(".")[2]
        raise StateError(
            f"register_save_state_pre_hook was given {name}: what it saves would be in no checkpoint. Give "
            f"AcceleratedRun the objects that it saves, such as AcceleratedRun(accelerator, loader, ema=ema), and "
            f"register the hook only where save_state is called. What prepare was given needs no hook"
        )


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
