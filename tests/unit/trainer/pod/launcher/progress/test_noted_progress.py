"""What a program reports is kept for its history: each change once, and only so much."""

from pathlib import Path
from typing import Any

import pytest

from holdfast_train.pod.launcher.progress.noted_progress import FILE, NotedProgress


def status(step: int) -> dict[str, Any]:
    metrics = {"current_step": step, "loss": 1}
    return {"trainerStatus": {"metrics": [{"name": name, "value": str(value)} for name, value in metrics.items()]}}


def test_a_file_that_nobody_takes_away_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_train.pod.launcher.progress.noted_progress.MOST_BYTES", 1000)
    noted = NotedProgress(str(tmp_path))
    for step in range(1, 100):
        noted.note(status(step))
        noted.note(status(step))
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert len(set(lines)) == len(lines)
    assert len(b"\n".join(lines)) < 1300


@pytest.mark.parametrize(
    "given", [{}, {"trainerStatus": None}, {"trainerStatus": 4}, {"trainerStatus": {"metrics": []}}]
)
def test_a_status_without_metrics_is_not_noted(tmp_path: Path, given: dict[str, Any]) -> None:
    NotedProgress(str(tmp_path)).note(given)
    assert not (tmp_path / FILE).exists()


# Breaks if a program can end the thread that answers its posts: each would then wait for 5 s inside the training loop.
def test_a_status_that_is_nested_too_deep_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    noted = NotedProgress(str(tmp_path))
    noted.note({"trainerStatus": {"metrics": nested}})
    noted.note(status(3))
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 1
    assert "the history of the training lacks" in capfd.readouterr().err
