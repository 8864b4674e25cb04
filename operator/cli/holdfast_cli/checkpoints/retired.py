"""Which checkpoints the log once named and no longer names."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast_train.commitlog.log import read
from holdfast_train.errors import KeyMissingError
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.base import Storage

THREADS: Final = 8
BATCH: Final = 64


def once_committed(storage: Storage, names: Collection[CheckpointName], newest: int) -> frozenset[CheckpointName]:
    """The `names` that a commit in records 1 to `newest` has. Reads backwards until all are found. StorageError.

    Retired checkpoints are mostly recent ones whose deletion was interrupted: few records are read. A name that was
    never committed costs reading the whole log. CheckpointCorruptError if a record cannot be read.
    """
    wanted, found = set(names), set[CheckpointName | None]()
    with ThreadPoolExecutor(THREADS, "holdfast-log") as pool:
        for last in range(newest, 0, -BATCH):
            if wanted == found:
                break
            for name in pool.map(lambda seq: _committed(storage, seq), range(last, max(last - BATCH, 0), -1)):
                found |= {name} & wanted
    return frozenset(wanted & found)


def _committed(storage: Storage, seq: int) -> CheckpointName | None:
    try:
        record, _ = read(storage, seq)
    except KeyMissingError:  # Holdfast never deletes records; a lifecycle rule of the bucket may
        return None
    return record.commit.name if record.commit else None
