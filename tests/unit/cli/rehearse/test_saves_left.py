"""The saves in a folder that a program has left."""

from pathlib import Path

from tests.support.trainer.folders import archive, hugging_face

from holdfast_cli.rehearse.commits import Made
from holdfast_cli.rehearse.saves_left import saves_in, step_left, torn_in


def made(save: str) -> list[Made]:
    return [Made(3, 1, 20, save, is_new=True, uploaded=1)]


# Breaks if an older save is compared in the place of the newest one.
def test_the_newest_save_is_the_last(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        hugging_face(tmp_path, step)
    (tmp_path / "train.log").write_text("x")
    assert saves_in((tmp_path,), made("checkpoint-20")) == ("checkpoint-10", "checkpoint-30", "checkpoint-20")
    assert saves_in((tmp_path,), made("checkpoint-40")) == ("checkpoint-10", "checkpoint-20", "checkpoint-30")
    assert saves_in((), made("checkpoint-20")) == ()


# Breaks if steps count as lost although the program found a save of them in its folder, or if half of a save counts.
def test_the_step_that_is_left(tmp_path: Path) -> None:
    assert step_left(tmp_path / "missing", None) is None
    assert step_left(tmp_path, None) is None
    hugging_face(tmp_path, 30)
    assert step_left(tmp_path, None) == 30
    torn = archive(tmp_path / "checkpoint-40" / "optimizer.pt", b"b" * 9999)
    torn.write_bytes(torn.read_bytes()[:5000])
    assert step_left(tmp_path, None) is None
    assert torn_in(tmp_path) == "checkpoint-40/optimizer.pt"


# Breaks if a save that was being written is said to be complete.
def test_a_file_that_is_being_written(tmp_path: Path) -> None:
    assert torn_in(tmp_path / "missing") == ""
    hugging_face(tmp_path, 30)
    assert torn_in(tmp_path) == ""
    (tmp_path / "step-40.pt.tmp").write_bytes(b"")
    assert torn_in(tmp_path) == "step-40.pt.tmp"
