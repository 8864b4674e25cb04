"""Many small requests at once: each takes milliseconds, and a large checkpoint has thousands of objects."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from holdfast_train.storage.base import Storage

THREADS: Final = 16  # requests at once: as many connections as a client of S3 keeps open
BATCH: Final = 4 * THREADS  # deletions between two looks at `stop`


def sizes(storage: Storage, keys: Collection[str], prefixes: Iterable[str]) -> Mapping[str, int | None]:
    """The sizes of `keys`; None for a key that does not exist.

    They are read from listings of `prefixes`, one request for each 1,000 objects. The listing of some stores is late,
    so a key that it lacks is asked for.
    """
    listed = {entry.key: entry.size for prefix in prefixes for entry in storage.entries(prefix)}
    missing = [key for key in keys if key not in listed]
    with ThreadPoolExecutor(THREADS, "holdfast-size") as pool:
        asked = dict(zip(missing, pool.map(storage.size, missing), strict=True))
    return {key: listed[key] if key in listed else asked[key] for key in keys}


def delete_all(storage: Storage, keys: Sequence[str], stop: Callable[[], bool]) -> bool:
    """Delete `keys`. `stop` is called between batches; True ends the deletion, and the result is False."""
    left = iter(keys)
    with ThreadPoolExecutor(THREADS, "holdfast-delete") as pool:
        while batch := list(islice(left, BATCH)):
            if stop():
                return False
            list(pool.map(lambda key: storage.delete([key]), batch))
    return True
