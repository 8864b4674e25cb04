"""Read a checkpoint's manifest and compare it with the log."""

import hashlib

from holdfast_cli.checkpoints.pick import Selected
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError
from holdfast_train.format import manifest
from holdfast_train.format.manifest import Manifest
from holdfast_train.storage.base import Storage


def read_manifest(storage: Storage, selected: Selected) -> Manifest:
    """The manifest. CheckpointCorruptError, which names the key, if it is not the committed one; KeyMissingError.

    CheckpointVersionError if another version of holdfast-train wrote it.
    """
    key = selected.name.manifest_key
    data = storage.get(key)
    try:
        found = manifest.decode(data)
    except (CheckpointCorruptError, CheckpointVersionError) as error:
        raise type(error)(f"{key}: {error}") from error
    if selected.commit and hashlib.sha256(data).hexdigest() != selected.commit.sha256:
        raise CheckpointCorruptError(f"{key} is not the manifest that was committed: its hash differs from the log's")
    if found.name != selected.name:
        raise CheckpointCorruptError(f"{key} is the manifest of {found.name}")
    return found
