"""A loop with Accelerate through `AcceleratedRun`: interrupted, it equals an uninterrupted one."""

import signal
from pathlib import Path

import pytest
from tests.support.trainer.frameworks.held_trainer import SAMPLES, Setup, Trial

pytestmark = pytest.mark.training
PLAIN = Setup(library="accelerate")
NOISY = Setup(library="accelerate", accumulate=3, workers=2, noisy=True, epochs=3)
OWN = Setup(library="accelerate", sampling="own")
TWO_RANKS = Setup(library="accelerate", processes=2, accumulate=2, noisy=True, fsdp=True)


# Breaks if the position of the data, a generator, the schedule or the phase of the accumulation is not restored.
@pytest.mark.parametrize("setup", [NOISY, OWN, TWO_RANKS], ids=str)
def test_a_loop_that_is_killed_three_times_has_the_losses_of_one_that_is_not(tmp_path: Path, setup: Setup) -> None:
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
def test_a_loop_saves_on_a_notice_and_loses_no_step(tmp_path: Path) -> None:
    setup = NOISY
    whole = Trial(tmp_path / "whole").run(setup)
    trial = Trial(tmp_path / "reclaimed")
    first = trial.run(setup, at=2, by=signal.SIGTERM)
    second = trial.run(setup)
    assert first.logs == []  # the process ends, and does not go on after its training
    assert {step for step, *_ in first.batches} == {0, 1, 2}
    assert sorted(first.batches + second.batches) == whole.batches
    assert second.logs == whole.logs


# Breaks if training through Holdfast changes what the loop computes, or if the loop needs a pod.
def test_a_loop_has_the_losses_of_one_outside_a_pod(tmp_path: Path) -> None:
    setup = Setup(library="accelerate", accumulate=2)
    held = Trial(tmp_path / "held").run(setup)
    plain = Trial(tmp_path / "plain", held=False).run(setup)
    assert held.batches == plain.batches
    assert held.logs[0]["rate"] == plain.logs[0]["rate"]


# Breaks if a training that is complete is trained further.
def test_a_training_that_is_complete_trains_no_step(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    whole = trial.run(PLAIN)
    again = trial.run(PLAIN)
    assert again.batches == []
    assert again.logs[0]["step"] == whole.logs[0]["step"]


# Breaks if the order of the samples is not compared with that before the checkpoint.
def test_an_order_that_no_checkpoint_has_is_refused(tmp_path: Path) -> None:
    setup = Setup(library="accelerate", sampling="hidden")
    trial = Trial(tmp_path)
    trial.run(setup, ends=-signal.SIGKILL, at=8)
    with pytest.raises(RuntimeError, match=r"in another order than before the checkpoint.*OwnSampler"):
        trial.run(setup)
