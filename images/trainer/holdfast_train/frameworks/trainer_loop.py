"""What the loop of a Hugging Face Trainer keeps between two steps, besides model, optimizer and schedule."""

import copy
import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast_train.errors import StateError
from holdfast_train.format.stateful import Stateful
from holdfast_train.say import say

# Fields of TrainerState that the arguments of this attempt decide, or that differ between ranks.
NOT_SAVED: Final = frozenset(
    {
        "is_local_process_zero",
        "is_world_process_zero",
        "is_hyper_param_search",
        "stateful_callbacks",
        "max_steps",
        "num_train_epochs",
        "logging_steps",
        "eval_steps",
        "save_steps",
        "train_batch_size",
    }
)


# Numbers of the loop that are in no public place: the name in a checkpoint, and the attribute of the Trainer.
NUMBERS: Final = {
    "loss": "_tr_loss",
    "total_loss": "_total_loss_scalar",
    "last_logged": "_globalstep_last_logged",
    "first_step": "_initial_global_step",
}


class TrainerLoop:
    """The TrainerState, the mean of the loss since the last log, and callbacks with a state. One rank has its own.

    A callback has a state if it is an ExportableState of transformers, or has state_dict and load_state_dict.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._begun = time.monotonic()
        self._before = 0.0  # seconds of training in earlier attempts
        self._numbers: Mapping[str, Any] | None = None

    @property
    def seconds_before(self) -> float:
        """How long earlier attempts trained, up to the checkpoint."""
        return self._before

    def state_dict(self) -> dict[str, Any]:
        """The state after the last step, its logs and its evaluation."""
        trainer, state = self._trainer, self._trainer.state
        names = [field.name for field in dataclasses.fields(state) if field.name not in NOT_SAVED]
        exported = [[type(callback).__name__, callback.state()["attributes"]] for callback in self._exporting()]
        return {
            "state": _json({name: getattr(state, name) for name in names}),
            "exported": exported,
            "callbacks": {name: callback.state_dict() for name, callback in self._stateful()},
            **{name: _plain(getattr(trainer, attribute, 0)) for name, attribute in NUMBERS.items()},
            "flos": float(trainer.current_flos),
            "seconds": self._before + time.monotonic() - self._begun,
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Take over all but the numbers that the loop sets itself when it begins: `set_numbers` does."""
        self._before, self._begun = state["seconds"], time.monotonic()
        self._numbers = state
        self._load_state()

    def _load_state(self) -> None:
        """The TrainerState and the callbacks, from the checkpoint."""
        assert self._numbers is not None
        state = self._numbers
        for name, value in json.loads(bytes(state["state"])).items():
            if hasattr(self._trainer.state, name):
                setattr(self._trainer.state, name, value)
        exported = list(state["exported"])
        for callback in self._exporting():
            mine = next((one for one in exported if one[0] == type(callback).__name__), None)
            if mine is not None:
                exported.remove(mine)
                vars(callback).update(copy.deepcopy(mine[1]))  # it is loaded twice
        for name, callback in self._stateful():
            if name in state["callbacks"]:
                callback.load_state_dict(state["callbacks"][name])
        best = self._trainer.state.best_model_checkpoint
        if best is not None and not Path(best).is_dir():
            say(f"{best}, the best checkpoint of the Trainer, is not on this node: it is forgotten")
            self._trainer.state.best_model_checkpoint = None

    def set_numbers(self) -> None:
        """Give the loop, which has begun, the numbers of the checkpoint. The second call does nothing.

        What callbacks have counted or logged at the beginning of this attempt, in `on_train_begin`, is undone.
        """
        if self._numbers is None:
            return
        self._load_state()
        trainer, numbers, self._numbers = self._trainer, self._numbers, None
        for name, attribute in NUMBERS.items():
            begun = getattr(trainer, attribute)
            # A tensor is 0 here, of the right device and type.
            setattr(trainer, attribute, begun + numbers[name] if hasattr(begun, "detach") else numbers[name])
        trainer.current_flos = numbers["flos"]

    def _exporting(self) -> Iterator[Any]:
        for callback in self._trainer.callback_handler.callbacks:
            if hasattr(callback, "from_state"):
                yield callback

    def _stateful(self) -> Iterator[tuple[str, Stateful]]:
        for number, callback in enumerate(self._trainer.callback_handler.callbacks):
            if isinstance(callback, Stateful):
                yield f"{number} {type(callback).__name__}", callback


def _plain(number: Any) -> Any:
    return number.detach() if hasattr(number, "detach") else number


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_number).encode()
    except TypeError as error:
        place = _place(value, "the state of the Trainer at ")
        raise StateError(
            f"{place}, which JSON does not have: log strings and numbers, also in a tensor or an array of one element"
        ) from error


def _number(value: Any) -> Any:
    """The number in a tensor or an array with one element. TypeError if `value` is something else."""
    if hasattr(value, "item") and math.prod(getattr(value, "shape", (0,))) == 1:
        return value.item()
    raise TypeError


def _place(value: Any, place: str) -> str:
    """Where JSON lacks something in `value`, and of which type that is."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for name, part in parts:
        try:
            json.dumps({name: part}, default=_number)
        except TypeError:
            is_name = isinstance(name, str | int | float | None)
            return _place(part, f"{place}[{name!r}]") if is_name else f"{place} has a name of {type(name).__name__}"
    return f"{place} is a {type(value).__name__}"
