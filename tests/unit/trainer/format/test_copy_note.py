"""What the copy of a rank's state in memory contains."""

import pytest

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.fragment import Fragment
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName

NAME = CheckpointName(9, 2, "aa")
PARTS = [Part(NAME.part_key(1, number), 10, 4, ("a", "b", "c")) for number in range(4)]
FRAGMENT = Fragment(1, "form", (PARTS[0],), (PARTS[1],), (PARTS[2],), (PARTS[3],))


def test_it_comes_back_as_it_was_written() -> None:
    draft = Manifest(NAME, 9, 2, "uid", "2026-01-01T00:00:00+00:00", {"torch": "2"}, {}, {}, (), (), {"$dict": []}, ())
    for note in (CopyNote(NAME, 2, FRAGMENT, True), CopyNote(NAME, 2, FRAGMENT, False, draft, 7)):
        assert CopyNote.decode(note.encode()) == note


# Breaks if a copy without frozen parts is compared with the sums of these.
def test_frozen_parts_are_in_the_copy_only_if_this_save_has_copied_them() -> None:
    assert list(CopyNote(NAME, 2, FRAGMENT, True).parts) == PARTS
    assert list(CopyNote(NAME, 2, FRAGMENT, False).parts) == PARTS[2:]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"name": "x"}', b"\xff"])
def test_a_damaged_one_is_corrupt(data: bytes) -> None:
    with pytest.raises(CheckpointCorruptError, match="the note of a copy in memory cannot be read"):
        CopyNote.decode(data)
