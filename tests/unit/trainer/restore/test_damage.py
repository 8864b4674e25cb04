"""A small checkpoint in a folder, damaged in every way and at every byte: a restore finds it and takes the one before.

No older record can replace the newest record of the log: if that one is damaged, no attempt starts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.trainer import stores
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError
from holdfast_train.format import manifest, names
from holdfast_train.format.sealed_json import canonical, sealed, unsealed
from holdfast_train.restore.restored import Restored
from holdfast_train.storage.folder import FolderStorage

OLD, NEW = 10, 20


@dataclass(frozen=True)
class Saved:
    """Two checkpoints in `folder`, the log up to them, and the files of the newest: manifest, and two parts of data."""

    folder: Path
    storage: FolderStorage
    commits: tuple[records.Commit, ...]

    def file(self, step: int, what: str) -> Path:
        """The file of a part (`0`, `1`) or of the manifest."""
        (name,) = [commit.name for commit in self.commits if commit.step == step]
        return self.folder / (name.manifest_key if what == "manifest" else name.part_key(0, what))

    @property
    def record(self) -> Path:
        """The file of the newest record."""
        return self.folder / names.log_key(self.commits[-1].seq)

    def restore(self) -> Restored:
        """What an attempt would start from that read the log when it was whole."""
        found = Checkpoints(self.storage, identity(2), Keep())
        found.log.state = records.LogState(commits=self.commits)
        restored = restore_whole(found)
        assert restored is not None
        return restored


def state(step: int) -> dict[str, Any]:
    """Some hundred bytes, no two alike, and other ones at every step."""
    return {"objects": {"x": np.arange(90, dtype=np.uint16) * step, "step": step}}


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    monkeypatch.setattr(manifest, "PART_BYTES", 128)
    storage = FolderStorage(tmp_path / "prefix")
    attempt = Checkpoints(storage, identity(1), Keep())
    attempt.start("Auto")
    for step in (OLD, NEW):
        stores.save(attempt, step, state(step), [{"rng": step}])
    found = Saved(tmp_path / "prefix", storage, attempt.log.state.commits)
    assert holds(found.restore(), NEW)
    return found


def holds(restored: Restored, step: int) -> bool:
    """Is it exactly what was saved at `step`?"""
    objects = restored.state["objects"]
    assert objects["x"].tobytes() == state(step)["objects"]["x"].tobytes()
    return (restored.step, objects["step"], restored.ranks) == (step, step, ({"rng": step},))


def flips(file: Path, bits: int = 1, every: int = 1) -> Iterator[int]:
    """Damages one byte after the other, or one of `every`, each in `bits` of its bits, and mends it again."""
    whole = file.read_bytes()
    try:
        for at in range(0, len(whole), every):
            for bit in range(bits):
                damaged = bytearray(whole)
                damaged[at] ^= 1 << ((at + bit) % 8)
                file.write_bytes(damaged)
                yield at
    finally:
        file.write_bytes(whole)


# One checksum is of the whole manifest, so that some of its bytes stand for all of them.
@pytest.mark.parametrize(
    ("what", "every"), [("manifest", 7), pytest.param("manifest", 1, marks=pytest.mark.thorough), ("0", 1), ("1", 1)]
)
def test_every_byte_flipped(saved: Saved, what: str, every: int) -> None:
    file = saved.file(NEW, what)
    found = 0
    for at in flips(file, every=every):
        restored = saved.restore()
        assert holds(restored, OLD), at
        assert "step 20 is broken" in restored.note
        assert ("the manifest is not the one" if what == "manifest" else f"{file.name}: the CRC") in restored.note, at
        assert "resumed from the one of step 10" in restored.note
        found += 1
    assert found == -(-file.stat().st_size // every) > 50
    assert holds(saved.restore(), NEW)


@pytest.mark.parametrize("what", ["manifest", "0", "1"])
@pytest.mark.parametrize("how", ["deleted", "emptied", "a byte short", "half", "older", "other"])
def test_every_object_deleted_truncated_swapped(saved: Saved, what: str, how: str) -> None:
    """Swapped with the same object of the older checkpoint, or with the other kind of object of its own."""
    file = saved.file(NEW, what)
    whole = file.read_bytes()
    if how == "deleted":
        file.unlink()
    elif how == "older":
        file.write_bytes(saved.file(OLD, what).read_bytes())
    elif how == "other":
        file.write_bytes(saved.file(NEW, "0" if what != "0" else "1").read_bytes())
    else:
        file.write_bytes(whole[: {"emptied": 0, "a byte short": -1, "half": len(whole) // 2}[how]])
    restored = saved.restore()
    assert holds(restored, OLD)
    wrong = "the manifest is not the one" if what == "manifest" and how != "deleted" else file.name
    assert wrong in restored.note


def test_bytes_behind_an_object_change_nothing(saved: Saved) -> None:
    with saved.file(NEW, "0").open("ab") as file:
        file.write(b"more")
    assert holds(saved.restore(), NEW)


# The newest record


@pytest.mark.thorough
def test_every_bit_of_the_newest_record_flipped(saved: Saved) -> None:
    """It says who may commit and what may be deleted: a wrong one would be followed for ever."""
    keys = saved.storage.keys("")
    for at in flips(saved.record, bits=8):
        with pytest.raises(CheckpointCorruptError, match=saved.record.name):
            Checkpoints(saved.storage, identity(2), Keep()).start("Auto")
        assert at >= 0
    assert saved.storage.keys("") == keys  # and nothing was appended to it


@pytest.mark.parametrize("how", ["emptied", "a byte short", "half", "older"])
def test_the_newest_record_truncated_or_swapped(saved: Saved, how: str) -> None:
    whole = saved.record.read_bytes()
    older = saved.folder / names.log_key(saved.commits[0].seq)
    cut = {"emptied": 0, "a byte short": -1, "half": len(whole) // 2}
    saved.record.write_bytes(older.read_bytes() if how == "older" else whole[: cut[how]])
    with pytest.raises(CheckpointCorruptError, match=saved.record.name):
        Checkpoints(saved.storage, identity(2), Keep()).start("Auto")


def test_without_its_newest_record_the_log_ends_before_it(saved: Saved) -> None:
    """As after a crash just before the commit: the two look the same, and the checkpoint before it is taken."""
    saved.record.unlink()
    attempt = Checkpoints(saved.storage, identity(2), Keep())
    attempt.start("Auto")
    restored = restore_whole(attempt)
    assert restored is not None
    assert holds(restored, OLD)
    assert restored.note == ""
    stores.save(attempt, 30, state(30), [{"rng": 30}])
    assert [commit.step for commit in attempt.log.state.commits] == [OLD, 30]


def test_a_record_without_its_hash_or_with_another_is_none(saved: Saved) -> None:
    seq, body = saved.commits[-1].seq, unsealed(saved.record.read_bytes())
    for other in (body, {**body, "sha256": "0" * 64}):
        with pytest.raises(CheckpointCorruptError):
            records.decode(canonical(other), seq)
    with pytest.raises(CheckpointVersionError, match="version 99"):  # it is intact, and of a later release
        records.decode(sealed({**body, "v": 99}), seq)
