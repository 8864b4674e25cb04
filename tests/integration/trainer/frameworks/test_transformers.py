"""A Trainer of Hugging Face through `frameworks.transformers.train`: interrupted, it equals an uninterrupted one."""

import signal
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup, Trial

from holdfast_train.format.manifest import decode
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training
SETUPS = [
    Setup(accumulate=3, workers=2, noisy=True),
    Setup(sampling="group_by_length"),
    Setup(sampling="own", accumulate=2),
    Setup(processes=2, accumulate=2, noisy=True, fsdp=True),
]


# Breaks if the position of the data, a generator, the schedule, or the mean of the loss is not restored.
@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_a_trainer_that_is_killed_three_times_has_the_losses_of_one_that_is_not(tmp_path: Path, setup: Setup) -> None:
    whole = Trial(tmp_path / "whole").run(setup)
    steps = 1 + max(step for step, *_ in whole.batches)
    trial = Trial(tmp_path / "killed")
    kills = [steps // 4, steps // 2 + 1, steps - 1]  # in the first epoch, in the second, in the last step
    parts = [trial.run(setup, ends=-signal.SIGKILL, at=step) for step in kills]
    parts.append(trial.run(setup))
    first = 0
    for part, killed in zip(parts, [*kills, steps - 1], strict=True):
        assert part.batches[0][0] == first
        assert part.batches == [batch for batch in whole.batches if first <= batch[0] <= killed]
        first = killed // 3 * 3
    assert parts[-1].logs == whole.logs
    if setup.processes == 1:  # accelerate fills the last batches of two ranks with samples of the first ones
        assert sorted(whole.samples) == sorted([*range(SAMPLES)] * setup.epochs)  # none twice, none left out


# Breaks if a notice does not end training between two steps, or if its step is not saved.
@pytest.mark.parametrize("setup", [Setup(accumulate=2), Setup(processes=2, noisy=True)], ids=str)
def test_a_trainer_saves_on_a_notice_and_loses_no_step(tmp_path: Path, setup: Setup) -> None:
    whole = Trial(tmp_path / "whole").run(setup)
    trial = Trial(tmp_path / "reclaimed")
    first = trial.run(setup, at=4, by=signal.SIGTERM)
    second = trial.run(setup)
    assert first.logs == []  # the process ends, and does not go on after its training
    last = max(step for step, *_ in first.batches)
    assert 4 <= last <= 5
    assert sorted(first.batches + second.batches) == whole.batches
    assert second.logs == whole.logs


# Breaks if a number of the Trainer does not reach the operator, or is that of another step.
def test_a_trainer_reports_step_loss_and_metrics(tmp_path: Path, endpoint: Endpoint) -> None:
    found = Trial(tmp_path, more=endpoint.variables).run(Setup())
    last = endpoint.reports[-1]
    assert (last["state"], last["step"], last["steps"]) == ("completed", 22, 22)
    assert float(last["figures"]["loss"]) == pytest.approx(float.fromhex(found.batches[-1][2]), abs=1e-6)
    storage = FolderStorage(tmp_path / "prefix")
    saved = decode(storage.get(max(storage.keys("manifests/"))))
    evaluated = [log["eval_loss"] for log in found.logs if "eval_loss" in log]
    assert saved.metrics["eval_loss"] == repr(evaluated[-1])


# Breaks if training through Holdfast changes what the Trainer computes.
def test_a_trainer_has_the_losses_of_one_without_holdfast(tmp_path: Path) -> None:
    held = Trial(tmp_path / "held").run(Setup(accumulate=2))
    plain = Trial(tmp_path / "plain", held=False).run(Setup(accumulate=2))
    assert held.batches == plain.batches
    assert held.logs == plain.logs


# Breaks if a training that is complete is trained further, or if its program does not go on after it.
def test_a_training_that_is_complete_trains_no_step(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    whole = trial.run(Setup())
    again = trial.run(Setup())
    assert again.batches == []
    assert again.logs[: len(whole.logs) - 1] == whole.logs[:-1]


# Breaks if the order of the samples is not compared with that before the checkpoint.
def test_an_order_that_no_checkpoint_has_is_refused(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.run(Setup(sampling="hidden"), ends=-signal.SIGKILL, at=8)
    with pytest.raises(RuntimeError, match=r"in another order than before the checkpoint.*OwnSampler"):
        trial.run(Setup(sampling="hidden"))


# Breaks if another number of samples in a step is accepted: the position would be that of other samples.
def test_another_size_of_a_step_is_refused(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.run(Setup(), ends=-signal.SIGKILL, at=8)
    with pytest.raises(RuntimeError, match="samples of a step was 4 and is 8"):
        trial.run(Setup(accumulate=2))
