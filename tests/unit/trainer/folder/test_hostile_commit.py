"""Commits beside programs that never rest."""

from pathlib import Path

from tests.support.trainer.folders import SavedFolder, content

from holdfast_train.folder.look import Look, look


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
    assert place.commits.commit(seen.files, again, frozenset(), is_storm=True) is not None
    assert not place.commits.unread
    place.put_back(tmp_path / "new")
    assert content(tmp_path / "new") == {"kept": b"kept", "changed": b"other bytes"}
