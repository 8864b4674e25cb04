"""The torch-free trainer that operator tests use: it must start quickly and do what it is told."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.trainer import variables


def run(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast_train.stub", "--step-seconds=0", *options],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_counts_every_step_once() -> None:
    found = run("--steps=10")
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1] == "done at step 10, total 55"
    assert found.stdout.splitlines()[0].startswith("step 1 loss 4.0")


def test_fails_on_demand(tmp_path: Path) -> None:
    assert "told to fail at step 3" in run("--fail-at=3").stderr
    assert run("--exit-at=3", "--exit-code=42").returncode == 42
    later = run("--fail-at=3", "--fail-attempts=1", "--steps=5", **variables(f"file://{tmp_path}/p", 2))
    assert later.returncode == 0


def test_goal_of_the_job(tmp_path: Path) -> None:
    found = run("--quiet", **variables(f"file://{tmp_path}/p"), HOLDFAST_GOAL_STEPS="7")
    assert found.stdout == "done at step 7, total 28\n"


def test_imports_no_torch_and_no_boto3() -> None:
    """Its start-up is in every operator test, and boto3 alone takes longer than the rest together."""
    code = "import sys, holdfast_train.stub; print(sorted({'torch', 'boto3', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
