"""DistributedDataParallel on four ranks: a resume is exact if the order of its sums stays."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.trainer.stores import REPOSITORY, variables

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]  # four ranks start torch three times
PROGRAM = """
import hashlib, os, sys, torch, torch.distributed as dist
from torch import nn
from holdfast_train import Run

dist.init_process_group("gloo")
rank, stop = dist.get_rank(), int(sys.argv[1])
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(32, 200), nn.ReLU(), nn.Linear(200, 300), nn.ReLU(), nn.Linear(300, 1))
model = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
with Run(model=model, optimizer=optimizer) as run:
    for step in run.steps(8):
        inputs = torch.randn(8, 32, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        (model(inputs) - 1).square().mean().backward()
        optimizer.step()
        if step == stop:
            run.save()
        if step == stop + 1:  # the save has taken place at the end of the step before
            os._exit(1)
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()
print(f"resumed={run.resumed_from} digest={digest}\\n", end="", flush=True)
"""


def train(folder: Path, prefix: str, attempt: int, stop: int) -> set[tuple[str, str]]:
    """From which step the ranks have resumed, and their weights; empty if they were stopped."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    uri = f"file://{folder / prefix}"
    own = {"PYTHONPATH": str(REPOSITORY / "images/trainer"), "OMP_NUM_THREADS": "1"}
    env = {**os.environ, **variables(uri, attempt), **own}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", str(program)]
    done = subprocess.run([*command, str(stop)], env=env, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode == 0) is (stop < 0), done.stderr
    return set(re.findall(r"resumed=(\w+) digest=(\w+)", done.stdout))


@pytest.mark.thorough
def test_a_resume_on_four_ranks_is_exact_if_the_buckets_stay(tmp_path: Path) -> None:
    """Breaks if the state of a rank is not restored exactly: the sums over ranks have one order in both runs."""
    ((_, wanted),) = train(tmp_path, "whole", 1, -2)
    assert train(tmp_path, "parts", 1, 3) == set()
    ((resumed, digest),) = train(tmp_path, "parts", 2, -2)
    assert int(resumed) == 4
    assert digest == wanted
