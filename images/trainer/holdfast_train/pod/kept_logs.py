"""The logs of pods in a storage: one object for each pod, which outlives it. It holds no checkpoint; no fence rules it.

Each is a gzip file: a line with what is known of the pod, as JSON, and then lines `time text`, as a kubelet gives them.
Retention and `holdfast checkpoints prune` leave them. The newest stay, within MOST and ALL_BYTES.
"""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.sealed_json import decoded_json
from holdfast_train.pod.launcher.library import ANSWER
from holdfast_train.storage.base import Entry, Storage, join_uri
from holdfast_train.storage.opening import open_retrying

PREFIX: Final = "pod-logs/"
KEY: Final = re.compile(
    r"pod-logs/[\w-]{1,64}/a(?P<attempt>[1-9][0-9]{0,8})-n(?P<rank>[0-9]{1,9})of(?P<nodes>[1-9][0-9]{0,8})"
    r"-(?P<pod>[\w-]{1,64})\.gz"
)
MOST: Final = 4096  # objects,
ALL_BYTES: Final = 1 << 30  # and bytes of them, in a storage
MOST_BYTES: Final = 24 << 20  # of one, before it is compressed: a launcher writes less
PATIENCE: Final = 15.0  # seconds that the storage may not answer


class KeptLog(NamedTuple):
    """The log of one pod in a storage, by its name there."""

    key: str
    attempt: int  # that created the pod
    rank: int
    nodes: int  # of its training
    pod_uid: str
    size: int  # bytes in the storage


def keep(storage: Storage, key: str, content: bytes) -> None:
    """Store the log of one pod in place of what is there of it, and delete old ones that are too much. StorageError."""
    storage.put(key, content)
    entries = sorted(storage.entries(PREFIX), key=lambda entry: (entry.key != key, -entry.modified_at.timestamp()))
    storage.delete(_too_much(entries))


def _too_much(newest_first: Iterable[Entry]) -> list[str]:
    count, size, found = 0, 0, []
    for entry in newest_first:
        if count < MOST and size + entry.size <= ALL_BYTES:
            count, size = count + 1, size + entry.size
        else:
            found.append(entry.key)
    return found


def kept_logs(storage: Storage, job_uid: str) -> list[KeptLog]:
    """The logs of a job that are in the storage, by attempt and rank. StorageError."""
    found = []
    for entry in storage.entries(f"{PREFIX}{job_uid}/"):
        if named := KEY.fullmatch(entry.key):
            attempt, rank, nodes = (int(named[group]) for group in ("attempt", "rank", "nodes"))
            found.append(KeptLog(entry.key, attempt, rank, nodes, named["pod"], entry.size))
    return sorted(found, key=lambda log: (log.attempt, log.rank))


def read(storage: Storage, log: KeptLog) -> tuple[dict[str, Any], bytes]:
    """What is known of the pod, and its lines. StorageError.

    ValueError if it is not what a launcher writes: everybody who may write to the storage may write there.
    """
    if log.size > MOST_BYTES:
        raise ValueError(f"{log.key} has {log.size} bytes; a launcher writes at most {MOST_BYTES}")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(storage.get(log.key))) as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{log.key} is not a gzip file: {error}") from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"{log.key} has more than {MOST_BYTES} bytes")
    header, _, lines = content.partition(b"\n")
    known = decoded_json(header)
    if not isinstance(known, dict):
        raise ValueError(f"{log.key} does not begin with what is known of its pod")  # noqa: TRY004 - of the content
    return known, lines


def main() -> int:
    """Store the log that comes on the standard input, and print its address. 1 if that fails."""
    environment = Environment.read()
    if environment is None or environment.settings.checkpoint_uri is None:
        return 1
    own = environment.identity
    rank = f"n{environment.node_rank}of{environment.nodes}"
    key = f"{PREFIX}{own.job_uid}/a{own.attempt}-{rank}-{own.pod_uid}.gz"
    try:
        storage = open_retrying(environment, environment.settings.checkpoint_uri)
        with storage.within(PATIENCE):
            keep(storage, key, sys.stdin.buffer.read())
    except HoldfastTrainError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(ANSWER + join_uri(storage.uri, key) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
