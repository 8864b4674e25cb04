"""What a rank tells its launcher."""

from pathlib import Path

from holdfast_train.pod.launcher.stall_watch import Rank, read_pulses
from holdfast_train.pod.rank_verdict import begin_rank
from holdfast_train.progress import Progress
from holdfast_train.pulse import Pulse


# Breaks if what a program does after its last step, such as an export, looks like a training that hangs.
def test_progress_beats_with_each_step_and_state(tmp_path: Path) -> None:
    progress = Progress()
    progress.pulse = begin_rank(str(tmp_path), 2)
    assert read_pulses(str(tmp_path)) == {2: Rank("starting", None)}
    progress.steps = 1001
    progress.count_step(1000)
    progress.state = "training"
    assert read_pulses(str(tmp_path)) == {2: Rank("training", 1000)}
    progress.state = "saving"
    assert read_pulses(str(tmp_path)) == {2: Rank("saving", 1000)}
    progress.state = "training"
    progress.count_step(1001)
    assert read_pulses(str(tmp_path)) == {2: Rank("finishing", 1001)}


def test_another_process_of_the_rank_begins_anew(tmp_path: Path) -> None:
    begin_rank(str(tmp_path), 0).beat("training", 123456789)
    begin_rank(str(tmp_path), 0)
    assert read_pulses(str(tmp_path)) == {0: Rank("starting", None)}


def test_no_launcher_and_no_folder(tmp_path: Path) -> None:
    Pulse(None).beat("training", 1)
    Pulse(str(tmp_path / "missing")).beat("training", 1)
    assert not list(tmp_path.iterdir())
