"""A complete list of one kind of objects, applied to a cache at once."""

from collections.abc import Iterable
from typing import Any

from holdfast.runtime.informer.cache import Cache, Key


def replace_all(cache: Cache, kind: str, listed: Iterable[dict[str, Any]], version: int) -> set[Key]:
    """Put every object of `jobs`, `pods`, `nodes` or `profiles`, and drop every other one of that kind.

    `version` is the list's resourceVersion: newer objects in the cache stay.
    """
    present: set[str] = set()
    touched: set[Key] = set()
    for raw in listed:
        present.add(raw["metadata"]["uid"])
        touched |= cache.put(kind, raw)
    return touched | cache.drop_missing(kind, present, version)
