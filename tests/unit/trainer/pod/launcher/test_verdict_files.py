"""The files of a container: what ranks wrote is read, and a folder for it is found."""

from pathlib import Path

from holdfast_train.pod.launcher import verdict_files


def test_rank_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"result": "saved", "step": 5, "savedStep": 5, "at": 1.0}')
    (tmp_path / "rank-1.json").write_text("{")
    (tmp_path / "rank-2.json").write_text('{"step": 1}')
    (tmp_path / "rank-3.123").write_text("half")
    assert [v.rank for v in verdict_files.read_rank_verdicts(str(tmp_path))] == [0]
