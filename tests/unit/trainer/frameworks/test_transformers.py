"""What is refused, and what happens outside a pod. Trainings are in tests/integration/trainer/frameworks."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.frameworks.held_trainer import Setup
from tests.support.trainer.frameworks.slow_data import SlowData
from tests.support.trainer.frameworks.trainer_parts import make_trainer
from tests.support.trainer.stores import variables

from holdfast_train.errors import StateError
from holdfast_train.frameworks.transformers import HOOKED, train


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables(f"file://{tmp_path}/prefix").items():
        monkeypatch.setenv(name, value)


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


# Breaks if a program needs a pod, or if the Trainer is left changed.
def test_outside_a_pod_the_trainer_trains_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_JOB", raising=False)
    given = trainer(tmp_path)
    assert train(given).global_step == 11
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
