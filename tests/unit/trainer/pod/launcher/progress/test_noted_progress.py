"""What a program reports is kept for its history: each change once, and only so much."""

from pathlib import Path

import pytest

from holdfast_train.pod.launcher.progress.noted_progress import FILE, NotedProgress


def metrics(step: int) -> dict[str, str]:
    return {"current_step": str(step), "loss": "1"}


def test_a_file_that_nobody_takes_away_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_train.pod.launcher.progress.noted_progress.MOST_BYTES", 1000)
    noted = NotedProgress(str(tmp_path))
    for step in range(1, 100):
        noted.note(metrics(step))
        noted.note(metrics(step))
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert len(set(lines)) == len(lines)
    assert len(b"\n".join(lines)) < 1300


def test_no_metrics_are_not_noted(tmp_path: Path) -> None:
    NotedProgress(str(tmp_path)).note({})
    assert not (tmp_path / FILE).exists()
