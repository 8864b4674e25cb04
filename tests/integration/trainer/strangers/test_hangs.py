"""Programs without the library that hang under the launcher: they are ended, and the verdict says where they were."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.fake_operator import FakeOperator
from tests.support.trainer.folders import pod
from tests.support.trainer.stores import LAUNCHER
from typer.testing import CliRunner

from holdfast_cli.main import app
from holdfast_protocol.settings import Stall

PYTHON = sys.executable
LOOP = """
import json, os, pathlib, signal, sys, threading
rank = int(os.environ.get("RANK", 0))
def load(step):
    if step == 5 and rank == int(sys.argv[2]):
        sys.stderr.write("4%| a bar does not end its line"); sys.stderr.flush()
        HANGS
    if step == 5:
        threading.Event().wait()
def save(root, step):
    (root / f"checkpoint-{step}").mkdir(parents=True)
    state = {"global_step": step, "log_history": []}
    (root / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
for step in range(1, 100):
    load(step)
    if rank == 0 and step == 4:
        save(pathlib.Path(sys.argv[1]), step)
    print(f"step {step}/100", flush=True)
"""


def hang(tmp_path: Path, how: str, *before: str, rank: int = 0) -> tuple[dict[str, Any], str]:
    """The verdict on a program with checkpoint.folder that hangs after 4 steps, and what the launcher has printed."""
    (program := tmp_path / "train.py").write_text(LOOP.replace("HANGS", how))
    (tmp_path / "store").mkdir()
    operator = FakeOperator()
    more = {
        "operator_url": f"http://127.0.0.1:{operator.server.server_port}",
        "patterns": ("step {step}/{total}",),
        "stall": Stall(5),
    }
    root = tmp_path / "outputs"
    environment = pod(root, f"file://{tmp_path}/store/job", 1, tmp_path / "verdict", **more)
    command = [PYTHON, str(LAUNCHER), "--", PYTHON, *before, str(program), str(root), str(rank)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    finally:
        operator.server.shutdown()
        operator.server.server_close()
    return json.loads((tmp_path / "verdict").read_text()), done.stderr


# Breaks if a program that nobody has changed hangs for ever, if nobody learns where, or if its last checkpoint is lost.
@pytest.mark.parametrize("how", ["threading.Event().wait()", "os.kill(os.getpid(), signal.SIGSTOP)"])
def test_a_program_as_it_is_that_hangs(tmp_path: Path, how: str) -> None:
    verdict, errors = hang(tmp_path, how)
    assert (verdict["outcome"], verdict["reason"]) == ("failed", "Stalled"), errors
    assert "after step 4 (failure.stallTimeout: 5 s); a rank was in load (train.py, line 7)" in verdict["message"]
    assert verdict.get("savedStep") == 4, errors
    run = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["evidence", f"file://{tmp_path}/store/job"])
    assert run.exit_code == 0, run.output
    assert 'train.py", line 7 in load' in run.stdout
    assert "bar" not in run.stdout.partition("last lines")[0], "stacks alone"


@pytest.mark.thorough
def test_the_rank_of_torchrun_that_hangs_is_named(tmp_path: Path) -> None:
    """Breaks if the end of one rank ends the others before they have said where they are."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3")
    verdict, errors = hang(tmp_path, "while True: signal.pause()", *torchrun, rank=2)
    assert verdict["reason"] == "Stalled", errors
    assert "; rank 2 is at fault in load (train.py, line 7): 2 of 3 ranks are in" in verdict["message"]
