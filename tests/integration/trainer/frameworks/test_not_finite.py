"""Losses that are not numbers, in the training loop of each library: the log goes back, and the attempt has failed."""

from pathlib import Path

import pytest
from tests.support.trainer.frameworks.held_trainer import Setup, Trial
from tests.support.trainer.stores import identity

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training


# Breaks if a library hides such a loss, reports none, or goes on after the error that ends the attempt. Lightning's
# EarlyStopping ends the training at the validation after step 9: such a training is not complete.
@pytest.mark.parametrize(("library", "steps"), [("trainer", 10), ("accelerate", 10), ("lightning", 9), ("fabric", 10)])
def test_a_loop_whose_losses_are_not_numbers_goes_back(tmp_path: Path, library: str, steps: int) -> None:
    trial = Trial(tmp_path, more={"POISON": "8", "non_finite": "Rollback"})
    found = trial.run(Setup(library=library), ends=1)
    assert {step for step, *_ in found.batches} == set(range(steps)), "three such losses end the attempt"
    assert found.logs == []
    log = CommitLog(FolderStorage(tmp_path / "prefix"), identity(0)).refresh()
    assert [(one.step, one.found, one.attempt) for one in log.rollbacks] == [(0, 8, 1)]
    assert [c.step for c in log.left] == [saved for saved in (3, 6, 9) if saved < steps], "none of them is healthy"
    assert (log.commits, log.complete) == ((), None)
