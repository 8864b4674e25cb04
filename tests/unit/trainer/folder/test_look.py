"""One look: no link is followed, odd names stay as they are, and a folder without end is bounded."""

import os
from pathlib import Path

import pytest

from holdfast_train.folder.look import TooManyFilesError, look


def test_look(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("s")
    root = tmp_path / "root"
    odd = os.fsdecode(b'odd \xff\n"name')
    (root / "a" / odd).mkdir(parents=True)
    (root / "a" / odd / "file").write_text("content")
    (root / ".holdfast-put-back-1").mkdir()
    (root / ".holdfast-put-back-1" / "file").write_text("ours")
    (root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    found = look(root)
    assert set(found) == {f"a/{odd}/file", "link", "pipe"}
    assert (found[f"a/{odd}/file"].size, found["link"].link) == (7, str(tmp_path / "outside"))
    assert (found["pipe"].is_other, found["link"].is_other) == (True, False)


def test_bounded(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert len(look(tmp_path, most=11)) == 11
    with pytest.raises(TooManyFilesError, match="more than 10"):
        look(tmp_path, most=10)


# Breaks if the folder lost+found of a volume, which only root can read, hides all checkpoints.
def test_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "a").touch()
    scan = os.scandir

    def scandir(path: Path) -> object:  # root can read all, so the refusal is made here
        if str(path).endswith("lost+found"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = look(tmp_path)
    assert set(found) == {"a", "lost+found"}
    assert found["lost+found"].is_other
