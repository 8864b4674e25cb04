"""The file in which a rank reports its end: the launcher reads what the rank wrote."""

from pathlib import Path

import pytest

from holdfast_train.pod.launcher.verdict_files import read_rank_verdicts
from holdfast_train.pod.rank_verdict import forget_rank_verdict, write_rank_verdict


def test_the_launcher_reads_what_a_rank_wrote(tmp_path: Path) -> None:
    write_rank_verdict(str(tmp_path), 3, "failed", reason="OutOfMemory", message="x" * 3000, step=7, saved_step=5)
    (found,) = read_rank_verdicts(str(tmp_path))
    assert (found.rank, found.result, found.reason, found.step, found.saved_step) == (3, "failed", "OutOfMemory", 7, 5)
    assert found.message == "x" * 2000
    assert [path.name for path in tmp_path.iterdir()] == ["rank-3.json"]
    forget_rank_verdict(str(tmp_path), 3)
    forget_rank_verdict(str(tmp_path), 3)
    assert read_rank_verdicts(str(tmp_path)) == ()


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rank_verdict(str(tmp_path / "gone"), 0, "saved")
    assert "the verdict of rank 0 could not be written" in capsys.readouterr().err


def test_without_a_launcher_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rank_verdict(None, 0, "saved")
    forget_rank_verdict(None, 0)
    assert list(tmp_path.iterdir()) == []
