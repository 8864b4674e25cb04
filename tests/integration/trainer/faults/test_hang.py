"""Two ranks under torchrun and the launcher, one of which is stopped. Real processes, and gloo."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import LAUNCHER, variables
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_protocol.settings import Stall

pytestmark = pytest.mark.training
PROGRAM = """
import os, signal, threading, torch, torch.distributed as dist
from holdfast_train import Run
def exchange(step):
    dist.all_reduce(torch.ones(4))
def load(step):
    if step == 5 and dist.get_rank() == 1:
        HANGS
dist.init_process_group("gloo")
with Run(model=torch.nn.Linear(2, 2)) as run:
    for step in run.steps(1000):
        load(step)
        exchange(step)
"""


def hang(folder: Path, how: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The verdict, the evidence as JSON, and as people see it."""
    (program := folder / "train.py").write_text(PROGRAM.replace("HANGS", how))
    place = folder / "prefix"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    more = {"stall": Stall(5), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(LAUNCHER), "--", sys.executable, *torchrun]
    pod = Pod(folder, command, **variables(f"file://{place}", **more))
    try:
        verdict = pod.end(240)
    finally:
        pod.process.kill()
    run = CliRunner(env={"COLUMNS": "200"}).invoke
    shown, found = run(app, ["evidence", str(place)]), run(app, ["evidence", str(place), "-o", "json"])
    assert (shown.exit_code, found.exit_code) == (0, 0), shown.output + found.output + pod.output
    return verdict, json.loads(found.stdout), shown.stdout


def test_a_rank_that_is_stopped_is_at_fault(tmp_path: Path) -> None:
    """Breaks if the evidence of one rank is lost because another one ends, or if the wrong rank is named."""
    verdict, found, shown = hang(tmp_path, "os.kill(os.getpid(), signal.SIGSTOP)")
    assert (verdict["reason"], verdict["peer"]) == ("Stalled", False)
    assert "; rank 1 is at fault in load (train.py, line 8): its process is stopped by a signal" in verdict["message"]
    assert found["suspects"] == [{"rank": 1, "why": "its process is stopped by a signal"}]
    waits, stopped = found["nodes"][0]["ranks"]
    assert "in exchange" in waits["stacks"]
    assert "in load" in stopped["stacks"]
    assert (waits["step"], stopped["step"]) == (5, 5)
    assert waits["collectives"]["gloo 0"]["number"] >= 6, "torch's flight recorder"
    assert "in exchange" in shown
    assert "in load" in shown
    assert "exchange (train.py:5)" in waits["native"]
    assert "c10d::" in waits["native"], "the frames below Python's"
    assert stopped["native"] == ""
    assert "rank 0, with native frames\n" in shown


def test_a_rank_that_has_not_entered_the_collective_is_at_fault(tmp_path: Path) -> None:
    """Breaks if the numbers of collectives are not read while the main thread of a rank waits for a lock."""
    verdict, found, _ = hang(tmp_path, "threading.Event().wait()")
    first, second = (one["collectives"]["gloo 0"]["number"] for one in found["nodes"][0]["ranks"])
    assert first == second + 1
    assert f"; rank 1 is at fault in load (train.py, line 8): it has entered {second} collectives" in verdict["message"]
