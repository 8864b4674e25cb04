"""Programs that never stop to write: what they have saved is committed, and not at each look."""

from collections.abc import Callable
from pathlib import Path

from tests.support.trainer.folders import SavedFolder, content

from holdfast_train.folder.look import Look, look
from holdfast_train.folder.moment import Moment

LOOK = 2  # seconds


def commits(root: Path, write: Callable[[int], None], seconds: int) -> list[tuple[int, frozenset[str]]]:
    """When the folder was committed, and with which files, beside a program that writes before each look."""
    now = 0.0
    moment, found = Moment(root, clock=lambda: now), []
    moment.begin({}, {})
    while now < seconds:
        now += LOOK
        write(int(now))
        moment.see(look(root).files)
        if (due := moment.due()) is not None:
            moment.note_committed(due.files)
            found.append((int(now), frozenset(due.files)))
    return found


# Breaks if a log with a line now and then is a commit each time: then `keep` keeps nothing but these.
def test_a_line_every_six_seconds(tmp_path: Path) -> None:
    def write(at: int) -> None:
        if at % 6 == 0:
            with (tmp_path / "train.log").open("a") as log:
                log.write(f"step {at}\n")
        if at == 200:
            (tmp_path / "last.npy").write_bytes(b"\x93NUMPY" + bytes(100))

    found = commits(tmp_path, write, 300)
    assert len(found) <= 8
    assert min(at for at, files in found if "last.npy" in files) <= 206


# Breaks if a program that makes small files all the time is a commit at each look from then on.
def test_a_small_file_at_each_look(tmp_path: Path) -> None:
    found = commits(tmp_path, lambda at: (tmp_path / f"sample-{at}").touch(), 300)
    assert 5 <= len(found) <= 10


# Breaks if a download of an hour, or another temporary file at each look, keeps all saves from their commit.
def test_a_download_that_does_not_end(tmp_path: Path) -> None:
    def write(at: int) -> None:
        if at == 10:
            (tmp_path / "model.bin").write_bytes(bytes(2 << 20))
        with (tmp_path / "data.incomplete").open("a") as download:
            download.write("more" * at)

    assert {files for _, files in commits(tmp_path, write, 700)} == {frozenset(["model.bin"])}


# Breaks if a save that takes long is committed by halves in the place of the one before.
def test_a_save_in_place_that_takes_long(tmp_path: Path) -> None:
    def write(at: int) -> None:
        whole = b"PK\5\6" + bytes(18)
        (tmp_path / "last.pt").write_bytes(whole if at < 20 else b"PK\3\4" + bytes(at))

    assert all(at < 40 for at, _ in commits(tmp_path, write, 700))


# Breaks if a program that makes and deletes small files all the time keeps a large folder from each commit.
def test_a_storm(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    for name in ("kept", "gone", "changed"):
        (place.root / name).write_text(name)
    seen = look(place.root)

    def again() -> Look:
        (place.root / "later").write_text("after the look")
        return look(place.root)

    (place.root / "gone").unlink()
    (place.root / "changed").write_text("other bytes")
    assert place.commit_files(seen.files, again, frozenset(), is_storm=True) is not None
    assert not place.capture.unread
    place.put_back(tmp_path / "new")
    assert content(tmp_path / "new") == {"kept": b"kept", "changed": b"other bytes"}
