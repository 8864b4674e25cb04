"""Programs with ranks and workers under the launcher: they save undisturbed, and the verdict says how a rank ended."""

import signal
from pathlib import Path

import pytest
import torch
from tests.support.trainer.launched import start_behind, verdict_of
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

PROGRAM = REPOSITORY / "tests/support/trainer/strangers/trees.py"
TREES = '"$TREES" "$HERE"'
TORCHRUN = f'"${{PYTHON%/*}}/torchrun" --standalone --nproc-per-node 2 {TREES}'
ONE = "--cpu --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no"


# Breaks if a worker or a rank ends before the save, or if a command of the script follows it.
@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        (f"exec {TORCHRUN} loader", 2),
        (f'exec "$PYTHON" {TREES} spawn', 2),
        pytest.param(f'exec timeout 1h "$PYTHON" {TREES} loader', 1, marks=pytest.mark.thorough),
        pytest.param(f"{TORCHRUN} ranks 2>&1 | tee log; touch went-on", 2, marks=pytest.mark.thorough),
    ],
    ids=["torchrun-with-workers", "spawn", "timeout-with-workers", "torchrun-in-a-script"],
)
def test_what_is_saved_on_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, ranks: int) -> None:
    monkeypatch.chdir(tmp_path)
    process = start_behind(tmp_path / "verdict", script, TREES=str(PROGRAM), OMP_NUM_THREADS="1")
    wait_for(lambda: len(list(tmp_path.glob("up-*"))) == ranks, 60, "the ranks")
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: len(list(tmp_path.glob("saving-*"))) == ranks or process.poll() is not None, 30, "their saves")
    (tmp_path / "go").touch()
    _, errors = process.communicate(timeout=60)
    saved = [torch.load(path) for path in tmp_path.glob("rank-*.pt")]
    assert saved == [{"step": 3}] * ranks, errors
    assert verdict_of(tmp_path / "verdict")["outcome"] == "drained"
    assert not (tmp_path / "went-on").exists()


# Breaks if a version of a library says in other words how a process has ended: its exit code would not reach the rules.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "cause", "words"),
    [
        (f'"$PYTHON" {TREES} spawn exit', "process 1, exitcode: 42", "terminated with exit code 42"),
        (f'"$PYTHON" {TREES} spawn segfault', "process 1, exitcode: -11", "was ended by SIGSEGV"),
        (
            f'"${{PYTHON%/*}}/accelerate" launch {ONE} {TREES} fail',
            "a process that it started, exitcode: 42",
            "1: no data",
        ),
    ],
    ids=["spawn-exit", "spawn-segfault", "accelerate"],
)
def test_how_a_process_ended(tmp_path: Path, command: str, cause: str, words: str) -> None:
    process = start_behind(tmp_path / "verdict", f"exec {command}", TREES=str(PROGRAM), OMP_NUM_THREADS="1")
    _, errors = process.communicate(timeout=120)
    verdict = verdict_of(tmp_path / "verdict")
    assert (verdict["outcome"], verdict["exitCode"]) == ("failed", 1), errors
    lines = verdict["lastLines"]
    assert isinstance(lines, list)
    assert lines[-1] == f"Root Cause: {cause}"
    assert words in str(verdict["message"])
