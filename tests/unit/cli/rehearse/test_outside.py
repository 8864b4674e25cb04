"""Files that a program writes where nothing saves them."""

from pathlib import Path

import pytest

from holdfast_cli.rehearse import outside
from holdfast_cli.rehearse.outside import WorkingDirectory


# Breaks if a file that only this machine has goes unnoticed, or if what is saved is said not to be.
def test_what_is_written_outside(tmp_path: Path) -> None:
    for name in ("train.py", "seen.json"):
        (tmp_path / name).write_text("x")
    for folder in ("out", "out-2", ".cache"):
        (tmp_path / folder).mkdir()
    directory = WorkingDirectory(tmp_path, [tmp_path / "out", Path("/elsewhere")])
    for name in ("seen.json", "out/last.pt", "out-2/best.pt", ".cache/x", "vocab.txt"):
        (tmp_path / name).write_text("longer than before")
    assert directory.written() == (("out-2/best.pt", "seen.json", "vocab.txt"), "")


# Breaks if a program that is started in its own folder is said to save nothing.
def test_the_folder_is_the_working_directory(tmp_path: Path) -> None:
    directory = WorkingDirectory(tmp_path, [tmp_path])
    (tmp_path / "last.pt").write_text("x")
    assert directory.written() == ((), "")


# Breaks if it is not said that nobody has looked.
def test_a_directory_with_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / str(number)).write_text("x")
    written, unknown = WorkingDirectory(tmp_path, []).written()
    assert written == ()
    assert "more than 2 files" in unknown
