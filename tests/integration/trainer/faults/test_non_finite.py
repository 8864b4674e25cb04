"""A batch that spoils the training, on one of two ranks. Real processes, DistributedDataParallel and gloo."""

import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.trainer.exact import start
from tests.support.trainer.inside import settle
from tests.support.trainer.stores import identity, variables

from holdfast_protocol.settings import Every, Spike
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.commitlog.records import LogState
from holdfast_train.storage.folder import FolderStorage

pytestmark = pytest.mark.training
GOAL, EVERY, POISONED = 260, 40, 215


def state(folder: Path) -> LogState:
    return CommitLog(FolderStorage(folder / "prefix"), identity(0)).refresh()


@pytest.mark.thorough
def test_every_rank_goes_back_if_the_batch_of_one_is_not_a_number(tmp_path: Path) -> None:
    """Breaks if a rank trains on alone, or if the spoiled parameters are resumed or completed."""
    assert start(2, _train, tmp_path, 1, POISONED, float("nan")) == [1, 1]
    after = state(tmp_path)
    (back,) = after.rollbacks
    assert (back.found, back.attempt) == (POISONED + 1, 1)
    assert back.step <= POISONED - 100
    assert back.step == after.commits[-1].step
    assert all(commit.step > back.step for commit in after.left)
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert (found["result"], found["reason"]) == ("failed", "NonFinite")
        assert "3 in a row" in found["message"]
    assert start(2, _train, tmp_path, 2, None, 0.0) == [0, 0]
    assert state(tmp_path).complete == GOAL
    assert json.loads((tmp_path / "end-2.json").read_text()) == {"from": back.step, "finite": True}


@pytest.mark.thorough
def test_every_rank_goes_back_if_the_loss_of_one_explodes(tmp_path: Path) -> None:
    """Breaks if a spike is taken for training, or if the checkpoint to which the ranks go back is one inside it."""
    assert start(2, _train, tmp_path, 1, POISONED, 1e3) == [1, 1]
    (back,) = state(tmp_path).rollbacks
    assert (back.found, back.attempt) == (POISONED + 1, 1)
    assert back.step <= POISONED - 100
    for rank in (0, 1):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert (found["result"], found["reason"]) == ("failed", "NonFinite")
        assert "the loss exploded, 3 in a row above" in found["message"]


def _train(folder: Path, attempt: int, poisoned: int | None, value: float) -> None:
    import torch

    from holdfast_train import Run

    rank = int(os.environ["RANK"])
    more = {"non_finite": "Rollback", "spike": Spike(10, 3, 50), "HOLDFAST_VERDICT_DIR": str(folder)}
    os.environ.update(variables(f"file://{folder}/prefix", attempt, every=Every(EVERY), **more))
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(model=model, optimizer=optimizer) as run:
        begun = run.step
        for step in run.steps(GOAL):
            batch = torch.full((2, 4), value) if rank and step == poisoned else torch.ones(2, 4)
            loss = (model(batch) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss=loss)
            if (step + 1) % EVERY == 0:
                settle(run)
    if rank == 0:
        finite = all(bool(p.isfinite().all()) for p in model.parameters())
        (folder / f"end-{attempt}.json").write_text(json.dumps({"from": begun, "finite": finite}))
    sys.stderr.flush()
