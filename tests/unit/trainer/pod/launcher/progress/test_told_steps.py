"""What a program tells of its steps, as the watch for hangs reads it."""

from pathlib import Path
from typing import Any

import pytest

from holdfast_train.pod.launcher.progress.told_steps import ToldSteps
from holdfast_train.pod.launcher.stall_watch import Rank, read_pulses


def told(folder: Path, *statuses: Any) -> dict[int, Rank]:
    steps = ToldSteps(str(folder))
    for one in statuses:
        steps.note(one)
    return read_pulses(str(folder))


# Breaks if a program whose last step is done counts as one that hangs, or if a status without a step hides the step.
@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        ([{"current_step": "7", "total_steps": "90"}], {0: Rank("training", 7)}),
        ([{"step": "7"}, {"loss": "1.5"}], {0: Rank("training", 7)}),
        ([{"step": "7"}, {"step": "90", "total_steps": "90"}], {0: Rank("ending", 90)}),
        ([{"step": "0"}, {"step": "-1"}, {"step": "x"}, {}], {}),
    ],
)  # fmt: skip
def test_the_last_step(tmp_path: Path, statuses: list[Any], found: dict[int, Rank]) -> None:
    assert told(tmp_path, *statuses) == found


def test_the_goal_of_the_job_is_the_last_step_too(tmp_path: Path) -> None:
    """Breaks if a program that tells no total is ended while it uploads its model."""
    steps = ToldSteps(str(tmp_path), "50")
    steps.note({"step": "50"})
    assert read_pulses(str(tmp_path)) == {0: Rank("ending", 50)}


def test_ranks_that_write_by_themselves_count(tmp_path: Path) -> None:
    """Breaks if a program with a Run, whose library also reports by itself, is judged by both."""
    (tmp_path / "pulse-0").write_text("saving 6")
    assert told(tmp_path, {"step": "7"}) == {0: Rank("saving", 6)}


def test_a_folder_that_is_gone_is_said_and_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(tmp_path / "gone", {"step": "7"}) == {}
    assert "a hang is not noticed" in capsys.readouterr().err
