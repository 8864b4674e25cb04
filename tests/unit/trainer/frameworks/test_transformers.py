"""What is refused, and what happens outside a pod. Trainings are in tests/integration/trainer/frameworks."""

import os
import random
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.trainer.frameworks.held_trainer import Setup
from tests.support.trainer.frameworks.slow_data import SlowData
from tests.support.trainer.frameworks.trainer_parts import make_trainer
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import ExportableState

from holdfast_train import Generators, Values
from holdfast_train.errors import StateError
from holdfast_train.frameworks.trainer_loop import TrainerLoop
from holdfast_train.frameworks.transformers import HOOKED, train


def trainer(folder: Path) -> Any:
    return make_trainer(Setup(epochs=1), folder, lambda line: None, lambda step: None)


# Breaks if an option that makes a resume inexact is accepted.
@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize(
    "option", ["enable_jit_checkpoint", "load_best_model_at_end", "auto_find_batch_size", "ignore_data_skip"]
)
def test_an_option_that_makes_a_resume_inexact_is_refused(tmp_path: Path, option: str) -> None:
    given = trainer(tmp_path)
    setattr(given.args, option, True)
    with pytest.raises(StateError, match=f"{option} is set"):
        train(given)


@pytest.mark.usefixtures("pod")
def test_a_checkpoint_of_the_trainer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="resume_from_checkpoint"):
        train(trainer(tmp_path), resume_from_checkpoint=True)


# Breaks if the state of another way to share the training is taken for one that can be saved.
@pytest.mark.usefixtures("pod")
def test_a_training_with_deepspeed_is_refused(tmp_path: Path) -> None:
    given = trainer(tmp_path)
    given.accelerator = type("Accelerator", (), {"distributed_type": "DEEPSPEED"})()
    with pytest.raises(StateError, match="DEEPSPEED"):
        train(given)


@pytest.mark.usefixtures("pod")
def test_a_version_without_a_hook_is_refused(tmp_path: Path) -> None:
    given = trainer(tmp_path)
    given.__class__ = type("Older", (object,), {})
    with pytest.raises(StateError, match=r"no Trainer\.get_train_dataloader"):
        train(given)


# Breaks if a training without a checkpoint is taken for one that Holdfast saves.
@pytest.mark.usefixtures("pod")
def test_a_trainer_with_a_loop_of_its_own_is_refused(tmp_path: Path) -> None:
    given = trainer(tmp_path)

    def loop(**_: Any) -> None:
        given.training_step(given.model, next(iter(given.get_train_dataloader())))

    given._inner_training_loop = loop
    with pytest.raises(StateError, match="trains in a loop of its own"):
        train(given)


# Breaks if a program needs a pod, or if the Trainer is left changed.
def test_outside_a_pod_the_trainer_trains_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_JOB", raising=False)
    given = trainer(tmp_path)
    assert train(given, ignore_keys_for_eval=[], values=Values(count=0)).global_step == 11
    assert not set(HOOKED) & set(vars(given))


# Breaks if a version that lacks a method fails in the middle of a training, or with a name of Python alone.
@pytest.mark.usefixtures("pod")
def test_a_version_without_a_method_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = trainer(tmp_path)
    monkeypatch.delattr("transformers.Trainer._run_epoch")
    with pytest.raises(StateError, match=r"transformers \d.* has no Trainer._run_epoch: use 5.22, 5.23 or checkpoint"):
        train(given)


# Breaks if the time that the training takes counts as waiting, or a batch does not.
@pytest.mark.usefixtures("pod")
def test_it_knows_for_how_long_training_waits_for_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = trainer(tmp_path)
    data = given.train_dataset = SlowData(given.train_dataset, monkeypatch)
    train(given)
    assert data.read == len(data)
    first = 2 * given.args.per_device_train_batch_size  # the loader reads one batch ahead
    assert data.read - first <= data.waited < data.read


class Watch(TrainerCallback):
    """Counts the beginnings of the training in its state. SIGTERM comes in the evaluation after step `at`."""

    def __init__(self, at: int | None) -> None:
        self.at, self.begun = at, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.begun += 1
        state.log_history.append({"begun": self.begun})

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)

    def state_dict(self) -> dict[str, Any]:
        return {"begun": self.begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.begun = state["begun"]


def evaluate(folder: Path, at: int | None = None, patience: int = 1, **arguments: Any) -> tuple[Any, Watch]:
    """A training of 11 steps with evaluations after 4 and 8, and at the start if `eval_on_start`."""
    given, watch = trainer(folder), Watch(at)
    for name, value in arguments.items():
        setattr(given.args, name, value)
    given.args.metric_for_best_model, given.args.greater_is_better = "eval_runtime", True
    given.add_callback(EarlyStoppingCallback(early_stopping_patience=patience, early_stopping_threshold=1e9))
    given.add_callback(watch)
    train(given)
    return given, watch


# Breaks if the notice wins: the next attempt would train on.
def test_a_notice_in_the_evaluation_that_ends_the_training_is_too_late(
    tmp_path: Path, pod: Callable[[int], None]
) -> None:
    assert evaluate(tmp_path, at=8)[0].state.global_step == 8
    pod(2)
    assert evaluate(tmp_path)[0].state.global_step == 8


class Draw(TrainerCallback):
    """A callback without a state: it draws a number from `source` before each step, and counts in `values`."""

    def __init__(self) -> None:
        self.source, self.values, self.drawn = random.Random(3), Values(count=0), list[Any]()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.values.count += 1
        self.drawn.append((self.values.count, self.source.random()))


# Breaks if a program has no way to give what its callbacks, its Trainer or its model keep elsewhere.
def test_objects_of_the_program_go_on_too(tmp_path: Path, pod: Callable[[int], None]) -> None:
    drawn = []
    for attempt in (1, 2):
        pod(attempt)
        given, draw = trainer(tmp_path), Draw()
        given.args.max_steps = 11
        for callback in (Watch(4 if attempt == 1 else None), draw):
            given.add_callback(callback)
        with pytest.raises(SystemExit) if attempt == 1 else nullcontext():
            train(given, per_rank={"source": Generators(source=draw.source)}, values=draw.values)
        drawn += draw.drawn
    source = random.Random(3)
    assert drawn == [(count, source.random()) for count in range(1, 12)]


# Breaks if an object of the program replaces one of the adapter.
@pytest.mark.usefixtures("pod")
@pytest.mark.parametrize(
    ("more", "name"), [({"schedule": Values()}, "schedule"), ({"per_rank": {"loop": Values()}}, "loop")]
)
def test_a_name_that_is_taken_is_refused(tmp_path: Path, more: dict[str, Any], name: str) -> None:
    with pytest.raises(StateError, match=f"'{name}' is the name of an object.*choose another name"):
        train(trainer(tmp_path), **more)


# Breaks if each attempt evaluates at its start, or if what callbacks do there is in the state once for each attempt.
def test_what_the_trainer_does_at_its_start_is_done_once(tmp_path: Path, pod: Callable[[int], None]) -> None:
    with pytest.raises(SystemExit):
        evaluate(tmp_path, at=0, patience=9, eval_on_start=True)  # no step is done: nothing is saved
    pod(2)
    with pytest.raises(SystemExit):
        evaluate(tmp_path, at=4, patience=9, eval_on_start=True)
    pod(3)
    given, watch = evaluate(tmp_path, patience=9, eval_on_start=True)
    logs = given.state.log_history
    assert [log["step"] for log in logs if "eval_loss" in log] == [0, 4, 8, 11]
    assert (watch.begun, [log["begun"] for log in logs if "begun" in log]) == (1, [1])
    assert given.args.eval_on_start


# Breaks if a program that logs numbers of NumPy or torch fails at its first save, or is not told which value is wrong.
def test_what_a_program_logs_is_a_number_or_is_named(tmp_path: Path) -> None:
    given = trainer(tmp_path)
    given.log({"a": np.float32(0.5), "b": torch.tensor([2.0], dtype=torch.bfloat16), "c": np.int64(3)})
    state = TrainerLoop(given).state_dict()
    given.state.log_history = []
    TrainerLoop(given).load_state_dict(state)
    assert {name: given.state.log_history[0][name] for name in "abc"} == {"a": 0.5, "b": 2.0, "c": 3}
    given.log({"loss": 1.0, "losses": torch.ones(2)})
    with pytest.raises(StateError, match=r"\['log_history'\]\[1\]\['losses'\] is a Tensor, which JSON does not have"):
        TrainerLoop(given).state_dict()
    given.state.log_history = [{np.int64(3): 1.0}]
    with pytest.raises(StateError, match=r"\['log_history'\]\[0\] has a name of int64, which JSON does not have"):
        TrainerLoop(given).state_dict()


class Kept(TrainerCallback, ExportableState):
    """Keeps `kept` in its state; each attempt adds to the list in it when it begins."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.kept["begun"].append(1)

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"kept": self.kept}}


# Breaks if a callback goes on with a number in place of its tensor, with a wider type, or with names that are strings:
# it fails then, or its numbers differ. Also if a list that came back has what this attempt did at its beginning.
def test_what_a_callback_keeps_comes_back_as_it_was(tmp_path: Path, pod: Callable[[int], None]) -> None:
    kept = {"mean": np.float32(0.1), "level": torch.ones((), dtype=torch.bfloat16), "seen": {3: (1, 2)}, "begun": []}
    for attempt in (1, 2):
        pod(attempt)
        given = trainer(tmp_path)
        given.args.max_steps = 11
        callback = Kept(kept if attempt == 1 else {"begun": []})
        for one in (Watch(4 if attempt == 1 else None), callback):
            given.add_callback(one)
        with pytest.raises(SystemExit) if attempt == 1 else nullcontext():
            train(given)
    assert callback.kept == kept and callback.kept["begun"] == [1]
    assert [type(callback.kept[name]) for name in ("mean", "level")] == [np.float32, torch.Tensor]
    assert callback.kept["level"].dtype == torch.bfloat16


# Breaks if the Trainer looks for a checkpoint on the disk of a lost node.
def test_the_best_checkpoint_of_a_lost_node_is_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = trainer(tmp_path)
    for best, kept in (("/lost/checkpoint-4", None), (str(tmp_path), str(tmp_path))):
        given.state.best_model_checkpoint = best
        state = TrainerLoop(given).state_dict()
        TrainerLoop(given).load_state_dict(state)
        assert given.state.best_model_checkpoint == kept
    assert "/lost/checkpoint-4, the best checkpoint of the Trainer, is not on this node" in capsys.readouterr().err
