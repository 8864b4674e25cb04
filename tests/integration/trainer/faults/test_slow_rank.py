"""A rank that is slower than the other one. Real processes, DistributedDataParallel and gloo."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.support.trainer.exact import start
from tests.support.trainer.inside import give_notice
from tests.support.trainer.stores import variables

pytestmark = pytest.mark.training
LIMIT = 2000  # steps


def test_rank_0_tells_which_rank_the_others_wait_for(tmp_path: Path) -> None:
    """Breaks if the wait for the slow rank counts as work of the quick one: then both take as long in each step."""
    assert start(2, _train, tmp_path) == [0, 0]
    (slow,) = json.loads((tmp_path / "slow.json").read_text())
    assert (slow["rank"], slow["pod"]) == (1, 1)
    assert float(slow["own_seconds"]) > 1.33 * float(slow["others_seconds"])


def _train(folder: Path) -> None:
    import torch

    from holdfast_train import Run

    rank = int(os.environ["RANK"])
    more = {"slow_window": 0.3, "HOLDFAST_RANK": str(rank)}
    os.environ.update(variables(f"file://{folder}/prefix", 1, **more))
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(model=model, optimizer=optimizer) as run:
        for _ in run.steps(LIMIT):
            time.sleep(0.03 if rank else 0.01)  # the data comes late on one node
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
            if run._progress.slow_ranks:
                (folder / "slow.json").write_text(json.dumps([asdict(one) for one in run._progress.slow_ranks]))
                give_notice(run, 10.0, "the test has what it waits for")
