"""The files of a container: what ranks wrote is read, and a folder for it is found."""

import sys
from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of

from holdfast_train.pod.launcher import verdict_files


def test_rank_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"rank": 0, "result": "saved", "step": 5, "savedStep": 5, "at": 1.0}')
    (tmp_path / "rank-1.json").write_text("{")
    (tmp_path / "rank-2.json").write_text('{"step": 1}')
    (tmp_path / "rank-3.123").write_text("half")
    assert [v.rank for v in verdict_files.read_rank_verdicts(str(tmp_path))] == [0]


# Breaks if a file that a program wrote by itself ends the launcher without a verdict.
@pytest.mark.parametrize(
    "content",
    [
        '{"rank": 0, "result": "failed", "step": 1e999}',
        '{"rank": 0, "result": ' + "[" * 100_000,
        '{"rank": 0, "result": "failed", "message": "' + "x" * 100_000 + '"}',
        '{"rank": 0, "result": "failed", "message": "\\ud800"}',
        '{"rank": 1' + "0" * 5000 + "}",
        "[1]",
        "\0",
    ],
)
def test_what_no_rank_wrote_is_left_out_with_its_name(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank-0.json").write_text(content)
    assert verdict_files.read_rank_verdicts(str(tmp_path)) == ()
    assert "cannot read rank-0.json" in capsys.readouterr().err


# Breaks if a program that empties the folder for temporary files loses what its ranks tell the launcher.
def test_the_folder_is_not_among_temporary_files(tmp_path: Path) -> None:
    code = (
        "import os, shutil; shutil.rmtree(os.environ['TMPDIR']); "
        "open(os.environ['HOLDFAST_VERDICT_DIR'] + '/rank-0.json', 'w').write('{\"rank\": 0, \"result\": \"left\"}')"
    )
    (tmp_path / "temporary").mkdir()
    process = start(tmp_path / "log", sys.executable, "-c", code, TMPDIR=str(tmp_path / "temporary"))
    _, errors = process.communicate(timeout=30)
    assert verdict_of(tmp_path / "log")["outcome"] == "drained", errors
