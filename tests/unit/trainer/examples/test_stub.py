"""The trainer without torch that operator tests use: it starts quickly and does what its options say."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.support.trainer.stores import variables

from holdfast_train.series.history import read_history
from holdfast_train.storage.opening import open_storage


def run(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast_train.examples.stub", "--step-seconds=0", *options],
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
    assert run("--stop-at=3").stdout.splitlines()[-1] == "done at step 3, total 6"
    later = run("--fail-at=3", "--fail-attempts=1", "--steps=5", **variables(f"file://{tmp_path}/p", 2))
    assert later.returncode == 0


# Breaks if the panel for metrics of a program has nothing to show in the run in front of a real Prometheus.
def test_reports_an_accuracy_on_demand(tmp_path: Path) -> None:
    run("--steps=3", "--accuracy", **variables(f"file://{tmp_path}/p"))
    (part,) = read_history(open_storage(f"file://{tmp_path}/p")).parts
    assert {"accuracy", "loss"} <= part.rows[-1].values.keys()


def test_goal_of_the_job(tmp_path: Path) -> None:
    found = run("--quiet", **variables(f"file://{tmp_path}/p"), HOLDFAST_GOAL_STEPS="7")
    assert found.stdout == "done at step 7, total 28\n"


def wait_for(text: str, output: IO[str] | None) -> None:
    assert output is not None
    for line in output:
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")


def test_waits_at_the_fence_and_hands_over(tmp_path: Path) -> None:
    """Three processes: the first trains, the second waits at the fence, the third has to leave while it waits."""

    def start(attempt: int, *options: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast_train.examples.stub", *options],
            env={**os.environ, **variables(f"file://{tmp_path}/p", attempt, **more)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    with start(1, "--steps=1000", "--step-seconds=0.01") as first:
        wait_for("step 1 ", first.stdout)
        with (
            start(2, "--steps=1000", "--step-seconds=0", HOLDFAST_PREDECESSOR="1") as second,
            start(3, "--steps=1000", HOLDFAST_PREDECESSOR="2") as third,
        ):
            wait_for("waits at the fence until attempt 2", third.stdout)
            third.send_signal(signal.SIGTERM)
            assert third.communicate(timeout=30)[0].splitlines()[-1] == "left at step 0, total 0"
            wait_for("waits at the fence until attempt 1", second.stdout)
            assert first.poll() is None
            first.send_signal(signal.SIGTERM)
            left = first.communicate(timeout=30)[0].splitlines()[-1]
            output = second.communicate(timeout=30)[0]
    step = left.split()[3].rstrip(",")
    assert f"until: attempt 1 has handed over at step {step}" in output
    assert f"resumed from step {step} " in output
    assert output.splitlines()[-1] == "done at step 1000, total 500500"
    assert [first.returncode, second.returncode, third.returncode] == [0, 0, 0]


def test_imports_no_torch_and_no_boto3() -> None:
    """Every operator test starts it, and the import of boto3 alone takes longer than the rest of its start."""
    code = "import sys, holdfast_train.examples.stub; print(sorted({'torch', 'boto3', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
