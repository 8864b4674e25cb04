"""The files of a container: what ranks wrote is read, and a folder for it is found."""

import sys
from pathlib import Path

from tests.support.trainer.launched import start, verdict_of

from holdfast_train.pod.launcher import verdict_files


def test_rank_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"result": "saved", "step": 5, "savedStep": 5, "at": 1.0}')
    (tmp_path / "rank-1.json").write_text("{")
    (tmp_path / "rank-2.json").write_text('{"step": 1}')
    (tmp_path / "rank-3.123").write_text("half")
    assert [v.rank for v in verdict_files.read_rank_verdicts(str(tmp_path))] == [0]


# Breaks if a program that empties the folder for temporary files loses what its ranks tell the launcher.
def test_the_folder_is_not_among_temporary_files(tmp_path: Path) -> None:
    code = (
        "import os, shutil; shutil.rmtree(os.environ['TMPDIR']); "
        "open(os.environ['HOLDFAST_VERDICT_DIR'] + '/rank-0.json', 'w').write('{\"result\": \"left\"}')"
    )
    (tmp_path / "temporary").mkdir()
    process = start(tmp_path / "log", sys.executable, "-c", code, TMPDIR=str(tmp_path / "temporary"))
    _, errors = process.communicate(timeout=30)
    assert verdict_of(tmp_path / "log")["outcome"] == "drained", errors
