"""Copies of the whole state that lie in the memory of the nodes, and of which the log may have no commit.

A save copies the state first, and is committed when the storage has all of it: seconds or minutes later. If a training
starts again in its pods in between, each rank's part may still be in memory: on its own node, and with
`checkpoint.peers` on another one too. Then the next attempt goes on from there, and no step is trained again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast_train.commitlog import rules
from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.commitlog.records import LogState
from holdfast_train.errors import CheckpointCorruptError, RanksDifferError, StateError
from holdfast_train.format import manifest
from holdfast_train.format.assembly import assemble, check_fragment
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.names import CheckpointName
from holdfast_train.say import say
from holdfast_train.storage.base import join_uri

IN_MEMORY: Final = -1  # in place of the number of a commit


@dataclass(frozen=True)
class MemoryCheckpoint:
    """All ranks have copied their part of this checkpoint. `fence`: as of the CopyNote."""

    manifest: Manifest
    fence: int


MemoryCheckpoints: TypeAlias = Sequence[MemoryCheckpoint]  # newest first


def memory_checkpoints(notes: Iterable[bytes]) -> list[MemoryCheckpoint]:
    """The saves of which all ranks have a note, newest first. Notes that are damaged or do not fit are left out."""
    by_name: dict[CheckpointName, dict[int, CopyNote]] = {}
    for data in notes:
        try:
            note = CopyNote.decode(data)
        except CheckpointCorruptError as error:
            say(str(error))
            continue
        by_name.setdefault(note.name, {})[note.fragment.rank] = note
    found = [one for ranks in by_name.values() if (one := _whole(ranks)) is not None]
    return sorted(found, key=lambda one: one.manifest.step, reverse=True)


def _whole(notes: dict[int, CopyNote]) -> MemoryCheckpoint | None:
    first = notes.get(0)
    if first is None or first.draft is None or first.fence is None or set(notes) != set(range(first.ranks)):
        return None
    fragments = [notes[rank].fragment for rank in range(first.ranks)]
    try:
        for other in fragments[1:]:
            check_fragment(first.draft, fragments[0], other)
    except (StateError, RanksDifferError) as error:
        say(f"the copy of step {first.draft.step} in the memory of the nodes is not used: {error}")
        return None
    return MemoryCheckpoint(assemble(first.draft, fragments), first.fence)


def offers(copies: Iterable[MemoryCheckpoint], state: LogState, storage_uri: str) -> list[Found]:
    """Those of `copies` from which an attempt may go on that has found the log in this `state`, in the same order."""
    return [
        Found(
            join_uri(storage_uri, one.manifest.name.manifest_key),
            manifest.encode(one.manifest),
            one.manifest,
            IN_MEMORY,
        )
        for one in copies
        if rules.may_go_on_from_memory(state, one.manifest, one.fence)
    ]
