"""Archives of programs in a storage."""

from pathlib import Path

import pytest
from tests.unit.trainer.code.test_archive import there, written

from holdfast_protocol.dependencies import Dependencies, Package
from holdfast_protocol.document import to_text
from holdfast_train.code.store import (
    copy,
    fetch,
    fetch_dependencies,
    key_of,
    list_key_of,
    send,
    size_of,
    size_of_dependencies,
)
from holdfast_train.code.tree import content_hash, tree_hash
from holdfast_train.errors import CodeInvalidError, CodeMissingError, StorageUnreachableError
from holdfast_train.storage.folder import FolderStorage


class Dying(FolderStorage):
    """The connection breaks in an upload."""

    def write(self, key: str, data: memoryview, **_more: object) -> None:
        raise StorageUnreachableError(f"{key}: no answer after {len(data) // 2} bytes")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


# Breaks if a folder is uploaded that is there already, or is not what comes back.
def test_a_folder_is_sent_once(root: Path, tmp_path: Path) -> None:
    storage = FolderStorage(str(tmp_path / "store"))
    entries = written(root, {"train.py": (b"print(1)", False), "parts/x.py": (b"x" * 3_000_000, False)})
    read: list[int] = []
    assert send(storage, root, entries, read.append) > 0
    assert sum(read) == 3_000_008
    assert send(storage, root, entries, read.append) == 0
    assert sum(read) == 3_000_008
    (tmp_path / "back").mkdir()
    fetch(storage, tree_hash(entries), tmp_path / "back", is_writable=True)
    assert there(tmp_path / "back") == there(root)
    (tmp_path / "back" / "train.py").write_text("mine now")


# Breaks if an upload that was cut off counts as one that was made.
def test_an_upload_that_is_interrupted(root: Path, tmp_path: Path) -> None:
    entries = written(root, {"train.py": (b"print(1)", False)})
    with pytest.raises(StorageUnreachableError):
        send(Dying(str(tmp_path / "store")), root, entries)
    storage = FolderStorage(str(tmp_path / "store"))
    with pytest.raises(CodeMissingError, match="has no code/"):
        fetch(storage, tree_hash(entries), tmp_path)
    assert send(storage, root, entries) > 0


# Breaks if a pod runs what somebody has put in the place of the program.
def test_an_archive_of_another_folder(root: Path, tmp_path: Path) -> None:
    storage = FolderStorage(str(tmp_path / "store"))
    entries = written(root, {"train.py": (b"print(1)", False)})
    send(storage, root, entries)
    wanted = tree_hash(written(root, {"train.py": (b"print(2)", False)}))
    storage.put(key_of(wanted), storage.get(key_of(tree_hash(entries))))
    (tmp_path / "back").mkdir()
    with pytest.raises(CodeInvalidError, match="is wanted"):
        fetch(storage, wanted, tmp_path / "back")
    assert not any((tmp_path / "back").iterdir())


# Breaks if a rehearsal has the program of its job, and not its packages.
def test_a_copy_with_packages(root: Path, tmp_path: Path) -> None:
    source, target = FolderStorage(str(tmp_path / "store")), FolderStorage(str(tmp_path / "store/probes/one"))
    program = written(root, {"train.py": (b"import extra", False)})
    send(source, root, program)
    (tmp_path / "packages").mkdir()
    package = written(tmp_path / "packages", {"extra.py": (b"1", False)})
    send(source, tmp_path / "packages", package)
    content = to_text(Dependencies("3.11", packages=(Package("extra", "1.0", tree_hash(package), 1),))).encode()
    source.put(list_key_of(content_hash(content)), content)
    copy(source, target, tree_hash(program), content_hash(content))
    (tmp_path / "back").mkdir()
    fetch_dependencies(target, content_hash(content), tmp_path / "back")
    assert (tmp_path / "back/extra.py").read_bytes() == b"1"
    assert size_of_dependencies(target, content_hash(content)) == size_of(target, tree_hash(package))


# Breaks if a rehearsal has another program than its job, or hides that the job has none.
def test_a_copy_for_another_job(root: Path, tmp_path: Path) -> None:
    source, target = FolderStorage(str(tmp_path / "store")), FolderStorage(str(tmp_path / "store/probes/one"))
    entries = written(root, {"train.py": (b"print(1)", False)})
    sha256 = tree_hash(entries)
    with pytest.raises(CodeMissingError, match="has no code/"):
        copy(source, target, sha256)
    send(source, root, entries)
    copy(source, target, sha256)
    copy(source, target, sha256)
    (tmp_path / "back").mkdir()
    fetch(target, sha256, tmp_path / "back", is_writable=True)
    assert there(tmp_path / "back") == there(root)
