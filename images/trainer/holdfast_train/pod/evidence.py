"""The evidence of hangs in a storage: one object for each node and hang. It holds no checkpoint, and no fence rules it.

Retention and `holdfast checkpoints prune` leave it. The newest MOST objects stay, each of at most about 1.8 MB.
"""

import json
import re
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.sealed_json import decoded_json
from holdfast_train.pod.launcher.library import ANSWER
from holdfast_train.storage.base import Storage, join_uri
from holdfast_train.storage.opening import open_retrying

PREFIX: Final = "evidence/"
KEY: Final = re.compile(r"evidence/a([1-9][0-9]{0,17})-n([0-9]{1,9})-[0-9a-f]{12}\.json")
MOST: Final = 256
MOST_BYTES: Final = 8 << 20  # of one object that is read: others are not ours
ALL_BYTES: Final = 512 << 20  # and of those that are read together
PATIENCE: Final = 15.0  # seconds that the storage may not answer


def keep(storage: Storage, document: Mapping[str, Any]) -> str:
    """Store the evidence of one node, and delete the oldest that is too much. Returns its key. StorageError."""
    entries = sorted(storage.entries(PREFIX), key=lambda entry: (entry.modified_at, entry.key))
    key = f"{PREFIX}a{document['attempt']}-n{document['node']}-{uuid.uuid4().hex[:12]}.json"
    storage.put_if_absent(key, json.dumps(document, separators=(",", ":")).encode())
    storage.delete([entry.key for entry in entries[: max(0, len(entries) + 1 - MOST)]])
    return key


def read(storage: Storage, attempt: int | None = None) -> list[dict[str, Any]]:
    """The evidence of one attempt, by default of the newest that has some, one document for each node. StorageError.

    Empty if there is none. If attempts of a job that was created again have the same number, the newest hang counts.
    ValueError if it is larger than a launcher writes: everybody who may write to the storage may write there.
    """
    named = [(found, entry) for entry in storage.entries(PREFIX) if (found := KEY.fullmatch(entry.key))]
    named.sort(key=lambda one: one[1].modified_at)
    if attempt is None and named:
        attempt = int(named[-1][0][1])
    newest = {found[2]: entry for found, entry in named if int(found[1]) == attempt}
    for entry in newest.values():
        if entry.size > MOST_BYTES:
            raise ValueError(f"{entry.key} has {entry.size} bytes; a launcher writes at most {MOST_BYTES}")
    if (size := sum(entry.size for entry in newest.values())) > ALL_BYTES:
        raise ValueError(f"attempt {attempt} has {size} bytes of evidence; at most {ALL_BYTES} are read")
    ordered = sorted(newest.values(), key=lambda entry: entry.modified_at)
    documents = [decoded_json(storage.get(entry.key)) for entry in ordered]
    of_node = {one["node"]: one for one in documents if one["jobUID"] == documents[-1]["jobUID"]}
    return [of_node[node] for node in sorted(of_node)]


def attempts(storage: Storage) -> list[int]:
    """The numbers of the attempts that have some evidence, the newest hang last. StorageError."""
    entries = sorted(storage.entries(PREFIX), key=lambda entry: entry.modified_at, reverse=True)
    found = dict.fromkeys(int(named[1]) for entry in entries if (named := KEY.fullmatch(entry.key)))
    return list(found)[::-1]


def main() -> int:
    """Store the document that comes on the standard input, and print its address. 1 if that fails."""
    environment = Environment.read()
    if environment is None or environment.settings.checkpoint_uri is None:
        return 1
    own = environment.identity
    document = {**json.load(sys.stdin), "namespace": own.namespace, "job": own.job, "jobUID": own.job_uid}
    document |= {"attempt": own.attempt, "podUID": own.pod_uid, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        storage = open_retrying(environment, environment.settings.checkpoint_uri)
        with storage.within(PATIENCE):
            sys.stdout.write(ANSWER + join_uri(storage.uri, keep(storage, document)) + "\n")
    except HoldfastTrainError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
