"""How the launcher treats the writer of checkpoint.folder. tests/unit/trainer/folder/test_writer.py has the whole."""

import signal
from pathlib import Path

import pytest
from tests.support.trainer.launched import start, verdict_of
from tests.support.waiting import wait_for


def test_writer_that_cannot_start(tmp_path: Path) -> None:
    pod = {"HOLDFAST_CHECKPOINT_FOLDER": str(tmp_path / "outputs"), "HOLDFAST_JOB": ""}
    process = start(tmp_path / "log", "touch", str(tmp_path / "started"), **pod)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"], process.returncode) == (
        "misconfigured",
        "FolderWriterNotStarted",
        78,
    )
    assert not (tmp_path / "started").exists()


# Breaks if a pod that has to leave while its checkpoint is put back goes on, or if a file of the program, in the folder
# in which a pod starts, is taken for a module of Python.
def test_signal_before_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "slow" / "holdfast_train"
    (library / "folder").mkdir(parents=True)
    (library / "__init__.py").touch()
    (library / "folder" / "__init__.py").touch()
    up = f"pathlib.Path({str(tmp_path / 'up')!r}).touch()"
    text = f"import pathlib, queue, signal\ndef main():\n    {up}\n    signal.pause()\n"
    (library / "folder" / "writer.py").write_text(text)
    pod = {"HOLDFAST_CHECKPOINT_FOLDER": str(tmp_path / "outputs"), "PYTHONPATH": str(library.parent)}
    process = start(tmp_path / "log", "touch", str(tmp_path / "started"), **pod)
    wait_for((tmp_path / "up").exists, 30, "the writer to run")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    verdict = verdict_of(tmp_path / "log")
    assert (verdict["outcome"], verdict["reason"]) == ("drained", "LeftWithoutSaving")
    assert not (tmp_path / "started").exists()
