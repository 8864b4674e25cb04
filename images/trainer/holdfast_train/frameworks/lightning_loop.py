"""What the loops of a Lightning Trainer keep between two batches, besides model, optimizer and schedules."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torchmetrics import Metric

from holdfast_train.run.accumulation import version
from holdfast_train.say import say

FILES: Final = ("best_model_path", "kth_best_model_path", "last_model_path")  # in the state of a ModelCheckpoint


class LightningLoop:
    """The progress of the loops, the other callbacks, the data module, and metrics that are not complete.

    Lightning keeps no metrics in its checkpoints. A value that is logged with on_epoch=True has its sum here, and a
    metric of torchmetrics its state, with the numbers and tensors in its attributes that have changed: wrappers such as
    `Running` count in them. One rank has its own. `own`: the callback that saves.
    """

    def __init__(self, trainer: Any, own: Any) -> None:
        self._trainer = trainer
        self._others = [callback for callback in trainer.callbacks if callback is not own]
        self._states: Mapping[str, Any] = {}  # of callbacks, from the checkpoint, until the first batch is asked for
        self._sums: dict[str, Any] = {}  # of the epoch, from the checkpoint, until the value is logged again
        # Those that each attempt makes.
        self._first = {name: _with_versions(_attributes(metric)) for name, metric in self._metrics()}

    def state_dict(self) -> dict[str, Any]:
        """The state between two batches."""
        trainer = self._trainer
        results = trainer.fit_loop.epoch_loop._results
        return {
            "fit": trainer.fit_loop.state_dict(),
            "stop": trainer.should_stop,  # decided, and not yet done: min_epochs or min_steps are not reached
            "callbacks": {callback.state_key: callback.state_dict() for callback in self._others},
            "data": {} if trainer.datamodule is None else trainer.datamodule.state_dict(),
            "sums": {**self._sums, **{name: _sum(result) for name, result in results.items() if _has_sum(result)}},
            "logged": dict(trainer.callback_metrics),
            "metrics": {
                name: {"state": {**metric.metric_state, **changed}, "updates": metric.update_count}
                for name, metric in self._metrics()
                if (changed := _changed(metric, self._first.get(name, {})))
            },
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on where `state` was made."""
        trainer = self._trainer
        trainer.fit_loop.load_state_dict(dict(state["fit"]))
        trainer.should_stop = state.get("stop", False)
        self._states = {key: _without_lost_files(key, found) for key, found in state["callbacks"].items()}
        self._load_callbacks()
        if trainer.datamodule is not None and state["data"]:
            trainer.datamodule.load_state_dict(state["data"])
        self._sums = dict(state["sums"])
        trainer.callback_metrics.update(state["logged"])
        for name, metric in self._metrics():
            if found := state["metrics"].get(name):
                vars(metric).update({name: _on(metric.device, value) for name, value in found["state"].items()})
                metric._update_count = found["updates"]

    def restore_callbacks(self) -> None:
        """The loop asks for its first batch: undo what callbacks have counted since, at the beginning of `fit`."""
        self._load_callbacks()
        self._states = {}

    def add_sums(self) -> None:
        """Add what was logged in this epoch before the checkpoint to what was logged since."""
        results = self._trainer.fit_loop.epoch_loop._results
        for name in self._sums.keys() & results.keys():
            result, before = results[name], self._sums.pop(name)
            value = before["value"].to(result.value.device)
            if result.meta.is_max_reduction or result.meta.is_min_reduction:
                result.value = result.meta.reduce_fx(value, result.value)
            else:
                result.value = value + result.value
            result._computed = None  # a value of before
            if result.meta.is_mean_reduction:
                result.cumulated_batch_size = result.cumulated_batch_size + before["samples"]

    def begin_epoch(self) -> None:
        """An epoch begins: the sums of the last one are not needed."""
        self._sums = {}

    def _load_callbacks(self) -> None:
        for callback in self._others:
            if found := self._states.get(callback.state_key):
                callback.load_state_dict(found)

    def _metrics(self) -> Iterator[tuple[str, Metric]]:
        for name, module in self._trainer.lightning_module.named_modules():
            if isinstance(module, Metric):
                yield name, module


def _without_lost_files(key: str, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a callback; that of a ModelCheckpoint without the files that are on the disk of another node."""
    if "best_k_models" not in state:
        return state
    paths = {name: state[name] for name in FILES if state.get(name)}
    every = {*paths.values(), *state["best_k_models"]}
    lost = {path for path in every if "://" not in path and not Path(path).exists()}
    if lost:
        say(f"{key} forgets files that this node does not have: {', '.join(sorted(lost))}")
    kept = {path: score for path, score in state["best_k_models"].items() if path not in lost}
    return {**state, **{name: "" for name, path in paths.items() if path in lost}, "best_k_models": kept}


def _has_sum(result: Any) -> bool:
    return bool(result.is_tensor and result.meta.on_epoch and result.update_called)


def _sum(result: Any) -> dict[str, Any]:
    mean = result.meta.is_mean_reduction
    return {"value": result.value, "samples": int(result.cumulated_batch_size) if mean else 0}


def _attributes(metric: Metric) -> dict[str, Any]:
    """The numbers and tensors of `metric`, also how often it was updated, without its states."""
    own = ((name, value) for name, value in vars(metric).items() if name not in metric._defaults)
    return {name: value for name, value in own if isinstance(value, int | float | torch.Tensor)}


def _with_versions(attributes: Mapping[str, Any]) -> dict[str, tuple[Any, int]]:
    """Each value, and how often a tensor was changed in place."""
    return {name: (value, _version(value)) for name, value in attributes.items()}


def _version(value: Any) -> int:
    return version(value) if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _changed(metric: Metric, first: Mapping[str, tuple[Any, int]]) -> dict[str, Any]:
    """The attributes that are not those of `first`; empty if `metric` was not updated, or was reset since."""

    def is_other(name: str, value: Any) -> bool:
        before, changes = first.get(name, (None, 0))
        is_tensor = isinstance(value, torch.Tensor)
        return (value is not before if is_tensor else value != before) or _version(value) != changes

    return {name: value for name, value in _attributes(metric).items() if is_other(name, value)}


def _on(device: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_on(device, part) for part in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value
