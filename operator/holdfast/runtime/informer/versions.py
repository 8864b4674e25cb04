"""Which version of an object is the newest known one, and which objects were deleted."""

from collections import OrderedDict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

Raw = Mapping[str, Any]
TOMBSTONES = 20_000


def version_of(raw: Raw) -> int:
    """The resourceVersion as a number; 0 if there is none."""
    return int(raw["metadata"].get("resourceVersion") or 0)


@dataclass(frozen=True, slots=True)
class _Stored:
    uid: str
    version: int


class Versions:
    """The newest resourceVersion of each object, and for each deleted UID the version of its deletion.

    A watch with a label selector also reports an object as deleted if it lost the label. It may come back in a newer
    version.
    """

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], _Stored] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()

    def accept(self, raw: Raw) -> bool:
        """Store this version; False if it is not newer than the known one."""
        meta = raw["metadata"]
        uid, version = meta["uid"], version_of(raw)
        name = (meta.get("namespace", ""), meta["name"])
        known = self.live.get(name)
        if version <= self._gone.get(uid, -1) or (known and version <= known.version):
            return False
        self._gone.pop(uid, None)
        self.live[name] = _Stored(uid, version)
        return True

    def record_deletion(self, name: tuple[str, str], uid: str, version: int) -> bool:
        """Store that this UID was deleted at this version; False if the name has another object or none."""
        self._gone[uid] = max(version, self._gone.get(uid, -1))
        while len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)
        known = self.live.get(name)
        if known is None or known.uid != uid:
            return False
        del self.live[name]
        return True

    def forget(self, name: tuple[str, str], uid: str) -> None:
        """Remove a UID that the API server did not find. If that was wrong, the same version brings it back."""
        known = self.live.get(name)
        if known and known.uid == uid:
            del self.live[name]

    def missing(self, present: Set[str], version: int) -> list[tuple[tuple[str, str], str]]:
        """Name and UID of the objects that a list of this version shows as deleted: not in it and not newer."""
        return [
            (name, stored.uid)
            for name, stored in self.live.items()
            if stored.uid not in present and stored.version <= version
        ]
