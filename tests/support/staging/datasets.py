"""Data in a folder that stands for a bucket, and pods that copy it."""

from collections.abc import Callable
from pathlib import Path

from holdfast_protocol.document import decode
from holdfast_protocol.settings import Data
from holdfast_train.staging.copy import Copy, Counts
from holdfast_train.staging.folder import DataFolder
from holdfast_train.storage.base import Entry
from holdfast_train.storage.folder import FolderStorage

FILES = {"train/a.bin": b"a" * 100_000, "train/b.bin": b"b" * 50_000, "labels.csv": b"x,y\n", "empty": b""}


class Store(FolderStorage):
    """Objects below a folder. `reads` are the keys that were read; `before` is called with each of them first."""

    def __init__(self, folder: Path, files: dict[str, bytes] | None = None) -> None:
        super().__init__(folder)
        self.folder = folder
        self.reads: list[str] = []
        self.before: Callable[[str], None] = lambda key: None
        self.listed: Callable[[list[Entry]], list[Entry]] = lambda entries: entries
        for name, content in (FILES if files is None else files).items():
            self.add(name, content)

    def add(self, name: str, content: bytes) -> None:
        """Write an object, or write it again."""
        self.put(name, content)

    def entries(self, prefix: str) -> list[Entry]:
        """As Storage."""
        return self.listed(super().entries(prefix))

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        """As Storage."""
        self.reads.append(key)
        self.before(key)
        super().read_into(key, start, *views, version=version)


def copy(store: Store, folder: Path) -> Counts:
    """Copy all objects, as a pod does. The counts."""
    counts = Counts()
    with DataFolder(str(folder), str(folder)) as target:
        one = Copy(store, target, counts)
        one.plan()
        one.run()
    return counts


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder, those with hidden names too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def wanted(*entries: dict[str, str]) -> tuple[Data, ...]:
    """`data` of the settings; `mount` is `to` if it is not given."""
    return tuple(decode(Data, {"mount": entry["to"], **entry}) for entry in entries)
