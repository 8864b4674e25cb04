"""Pods with the labels and the finalizer of Holdfast that are not pods of a job: copies, forgeries, unreadable pods.

No job waits for their end. But the finalizer would hold them, and their namespace, for ever.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.api import names


class Stray(NamedTuple):
    """A pod that is being deleted, and that our finalizer holds."""

    name: str
    uid: str


class Strays:
    """The strays of all namespaces, read from raw objects. `key` is a namespace and the name of a job or of a pod."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Stray]] = {}
        self._keys: dict[str, tuple[str, str]] = {}  # by pod UID

    def of(self, key: tuple[str, str]) -> tuple[Stray, ...]:
        """The strays under this key."""
        return tuple(self._found.get(key, {}).values())

    def keys(self) -> set[tuple[str, str]]:
        """The keys that have strays."""
        return set(self._found)

    def put(self, raw: Mapping[str, Any]) -> tuple[str, str] | None:
        """Store the current version of a pod; its key if it is a stray."""
        meta = raw["metadata"]
        self.drop(meta["uid"])
        if names.POD_FINALIZER not in (meta.get("finalizers") or ()) or not meta.get("deletionTimestamp"):
            return None
        job = (meta.get("labels") or {}).get(names.LABEL_JOB)
        key = (str(meta.get("namespace", "")), str(job or meta["name"]))
        self._keys[meta["uid"]] = key
        self._found.setdefault(key, {})[meta["uid"]] = Stray(meta["name"], meta["uid"])
        return key

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone, or not a stray any more."""
        key = self._keys.pop(uid, None)
        if key is not None:
            self._found[key].pop(uid)
            if not self._found[key]:
                del self._found[key]
