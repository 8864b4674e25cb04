"""Where the runs of a rehearsal lie, and what is left of them."""

from pathlib import Path

import pytest

from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.place import made_place


# Breaks if a rehearsal deletes what a user had in the folder.
@pytest.mark.parametrize("what", ["file", "full"])
def test_a_folder_with_content_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "out"
    if what == "file":
        folder.write_text("of the user")
    else:
        folder.mkdir()
        (folder / "model.pt").write_text("of the user")
    with pytest.raises(CliError, match="--folder"), made_place(folder, None):
        pytest.fail("it was taken")
    assert (folder if what == "file" else folder / "model.pt").read_text() == "of the user"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Breaks if something is left behind, if a folder goes that was there, or if the next run finds files of the one before.
@pytest.mark.parametrize("existed", [False, True])
def test_what_is_left(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "a" / "out"
    folder.parent.mkdir()
    if existed:
        folder.mkdir()
    with made_place(folder, None) as place:
        folder.mkdir(exist_ok=True)
        (folder / "below").mkdir()
        (folder / "below" / "last.pt").write_text("first")
        (folder / ".holdfast-folder.json").write_text("{}")
        [taken] = place.take_away("first")
        assert (taken / "below" / "last.pt").read_text() == "first"
        assert not any(folder.iterdir())
        assert not (taken / ".holdfast-folder.json").exists()
        assert place.launcher.is_file()
        (folder / "link").symlink_to(taken)
        place.empty()
        assert taken.is_dir(), "a link was followed"
        (folder / "late").write_text("x")
    assert [path.name for path in folder.parent.iterdir()] == (["out"] if existed else [])
    assert not existed or not any(folder.iterdir())


# Breaks if --keep mixes a rehearsal with files of the user, or keeps nothing.
def test_keep(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with made_place(None, kept) as place:
        (place.store("first") / "job").mkdir()
        assert place.take_away("first") == ()
        assert place.folder is None
    assert (kept / "first" / "store" / "job").is_dir()
    with pytest.raises(CliError, match="--keep"), made_place(None, kept):
        pytest.fail("it was taken")


# Breaks if what the runs leave is moved into itself, or deleted with the folder of the program.
@pytest.mark.parametrize(("folder", "keep"), [("out", "out"), ("out", "out/kept"), ("kept/out", "kept")])
def test_folders_in_each_other(tmp_path: Path, folder: str, keep: str) -> None:
    with pytest.raises(CliError, match="--keep"), made_place(tmp_path / folder, tmp_path / keep):
        pytest.fail("it was taken")
    assert not any(tmp_path.iterdir())


# Breaks if folders above the one of the program stay, or if one of them goes that was there.
def test_folders_above(tmp_path: Path) -> None:
    with made_place(tmp_path / "a" / "b" / "out", None) as place:
        assert place.folder is not None
        place.folder.mkdir(parents=True)
    assert tmp_path.is_dir()
    assert not any(tmp_path.iterdir())


# Breaks if nobody says where the files of a rehearsal are that was killed, or if a link that leads nowhere is followed.
def test_what_to_do_with_a_folder(tmp_path: Path) -> None:
    (tmp_path / ".holdfast-rehearsal-x").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "last.pt").touch()
    with pytest.raises(CliError, match=r"delete .*\.holdfast-rehearsal-x"), made_place(tmp_path / "out", None):
        pytest.fail("it was taken")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(CliError, match="leads nowhere"), made_place(tmp_path / "link", None):
        pytest.fail("it was taken")
