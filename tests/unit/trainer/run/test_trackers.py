"""What a program tells Weights & Biases of the attempts before it."""

import os
from pathlib import Path

import pytest
from tests.support.trainer.inside import give_notice
from tests.support.trainer.stores import environment

from holdfast_train import Run, wandb_settings
from holdfast_train.examples.stub import Counter


def settings(uri: str, attempt: int) -> tuple[dict[str, str], int | None]:
    """Of an attempt that leaves after its third step, and its first step."""
    first = None
    with Run(counter=Counter(), environment=environment(uri, attempt)) as run:
        found = wandb_settings(run)
        for step in run.steps(100):
            first = step if first is None else first
            if step == first + 2:
                give_notice(run, 10.0, "a test")
    return found, first


def test_the_curve_goes_on_at_the_step_that_follows_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if steps that are trained twice keep the values of the attempt that was lost, or if wandb gets two ways to
    resume, which it refuses.
    """
    uri = f"file://{tmp_path}"
    monkeypatch.setenv("HOLDFAST_JOB_UID", "u-1")
    monkeypatch.setenv("WANDB_RESUME", "allow")
    assert settings(uri, 1) == ({"id": "u-1", "resume": "allow"}, 0)
    found, first = settings(uri, 2)
    assert first == 3
    assert found == {"id": "u-1", "resume_from": "u-1?_step=2"}
    assert "WANDB_RESUME" not in os.environ


def test_a_run_that_the_user_has_named_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_JOB_UID", "u-1")
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    assert settings(f"file://{tmp_path}", 1)[0]["id"] == "mine"


def test_outside_a_pod_wandb_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_JOB_UID", raising=False)
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    with Run(counter=Counter()) as run:
        assert wandb_settings(run) == {}
