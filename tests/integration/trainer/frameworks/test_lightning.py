"""A Trainer of Lightning with the callback: interrupted, it equals an uninterrupted one."""

import signal
from pathlib import Path

import pytest
from tests.support.http.progress_endpoint import Endpoint
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup, Trial

from holdfast_train.format.manifest import decode
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training
PLAIN = Setup(library="lightning")
NOISY = Setup(library="lightning", accumulate=3, workers=2, noisy=True)
SCALED = Setup(library="lightning", sampling="own", scaled=True)
TWO_RANKS = Setup(library="lightning", processes=2, noisy=True)


# Breaks if the position of the data, a generator, the schedule, the loss scale or the phase of a step is not restored.
@pytest.mark.parametrize("setup", [NOISY, SCALED, TWO_RANKS], ids=str)
def test_a_lightning_trainer_that_is_killed_three_times_has_the_losses_of_one_that_is_not(
    tmp_path: Path, setup: Setup
) -> None:
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
    if setup.processes == 1:  # Lightning fills the last batches of two ranks with samples of the first ones
        assert sorted(whole.samples) == sorted([*range(SAMPLES)] * setup.epochs)  # none twice, none left out


# Breaks if a notice does not end training between two steps, or if Lightning handles the signal.
@pytest.mark.parametrize("setup", [NOISY, TWO_RANKS], ids=str)
def test_a_lightning_trainer_saves_on_a_notice_and_loses_no_step(tmp_path: Path, setup: Setup) -> None:
    whole = Trial(tmp_path / "whole").run(setup)
    trial = Trial(tmp_path / "reclaimed")
    first = trial.run(setup, at=4, by=signal.SIGTERM)
    second = trial.run(setup)
    assert first.logs == []  # the process ends, and does not go on after its training
    last = max(step for step, *_ in first.batches)
    assert 4 <= last <= 5
    assert sorted(first.batches + second.batches) == whole.batches
    assert second.logs == whole.logs


# Breaks if a number of the training does not reach the operator, or is that of another step.
def test_a_lightning_trainer_reports_step_loss_and_metrics(tmp_path: Path, endpoint: Endpoint) -> None:
    found = Trial(tmp_path, more=endpoint.variables).run(PLAIN)
    last = endpoint.reports[-1]
    assert (last["state"], last["step"], last["steps"]) == ("completed", 22, 22)
    assert float(last["figures"]["loss"]) == pytest.approx(float.fromhex(found.batches[-1][2]), abs=1e-6)
    storage = FolderStorage(tmp_path / "prefix")
    saved = decode(storage.get(max(storage.keys("manifests/"))))
    assert float(saved.metrics["train_loss_epoch"]) == float.fromhex(found.logs[0]["train_loss_epoch"])


# Breaks if training through Holdfast changes what the Trainer computes, or if the callback needs a pod.
def test_a_lightning_trainer_has_the_losses_of_one_outside_a_pod(tmp_path: Path) -> None:
    setup = Setup(library="lightning", accumulate=2)
    held = Trial(tmp_path / "held").run(setup)
    plain = Trial(tmp_path / "plain", held=False).run(setup)
    assert held.batches == plain.batches
    assert held.logs == plain.logs


# Breaks if a training that is complete is trained further.
def test_a_training_that_is_complete_trains_no_step(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    whole = trial.run(PLAIN)
    again = trial.run(PLAIN)
    assert again.batches == []
    assert again.logs[-1] == whole.logs[-1]


# Breaks if the order of the samples is not compared with that before the checkpoint.
def test_an_order_that_no_checkpoint_has_is_refused(tmp_path: Path) -> None:
    setup = Setup(library="lightning", sampling="hidden")
    trial = Trial(tmp_path)
    trial.run(setup, ends=-signal.SIGKILL, at=8)
    with pytest.raises(RuntimeError, match=r"in another order than before the checkpoint.*OwnSampler"):
        trial.run(setup)
