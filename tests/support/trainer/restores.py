"""Read whole checkpoints as users' programs do: newest first, through `read_intact`, each chunk checked."""

from dataclasses import replace

from holdfast_train.commitlog.checkpoints import Checkpoints, Found
from holdfast_train.restore.lazy_tensors import materialise, outline
from holdfast_train.restore.restored import Restored, restored
from holdfast_train.restore.source import read_intact
from holdfast_train.storage.base import Storage


def read_whole(storage: Storage, found: Found) -> Restored:
    """Everything that `found` holds, of all ranks."""
    manifest = found.manifest
    outlines = (outline(manifest.state, manifest), [outline(tree, manifest) for tree in manifest.ranks])
    state, ranks = materialise(storage, manifest, outlines)
    return restored(found, state, ranks)


def restore_whole(checkpoints: Checkpoints) -> Restored | None:
    """Everything that the newest intact checkpoint holds; None if there is no checkpoint at all."""
    result = read_intact(checkpoints, lambda found: read_whole(checkpoints._storage, found))
    if result is None:
        return None
    _, whole, note = result
    return replace(whole, note=note)
