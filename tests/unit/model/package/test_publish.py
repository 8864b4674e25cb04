"""A package in a storage: whole, or not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_model.package import PackageError
from holdfast_model.package import publish as module
from holdfast_model.package.publish import check_free, publish, published
from holdfast_train.errors import StorageUnreachableError
from holdfast_train.storage.base import Storage
from holdfast_train.storage.folder import FolderStorage

DOCUMENT = {
    "from": {"step": 7, "manifest": "file:///a", "sha256": "1"},
    "problem": {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [3]}],
        "dims": {},
    },
    "tests": {"bytes": 0, "sha256": "0" * 64, "cases": []},
    "variants": {},
}
KNOWN = {"README.md", "onnx", "pt2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "made"
    (place / "onnx").mkdir(parents=True)
    (place / "onnx" / "model.onnx").write_bytes(bytes(10_000))
    (place / "README.md").write_bytes(b"")
    (place / "package.json").write_text(json.dumps(DOCUMENT))
    return place


def in_memory(_: Path) -> Storage:
    return MemoryStorage()


def in_folder(tmp_path: Path) -> Storage:
    return FolderStorage(tmp_path / "there")


@pytest.mark.parametrize("opened", [in_memory, in_folder])
def test_all_files_are_copied(folder: Path, tmp_path: Path, opened: Callable[[Path], Storage]) -> None:
    storage = opened(tmp_path)
    assert published(storage) is None
    publish(folder, storage, KNOWN)
    assert {key: storage.get(key) for key in storage.keys("")} == {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")
    }
    assert published(storage) == DOCUMENT


# Breaks if package.json is not last: a reader would open what is not complete.
def test_an_interrupted_copy_is_no_package_and_the_next_one_replaces_it(folder: Path) -> None:
    storage = MemoryStorage()
    storage.put("pt2/model.pt2", b"of an attempt before")

    def lost(method: str, key: str) -> None:
        if key == "package.json" and method == "put_if_absent":
            raise StorageUnreachableError("gone")

    storage.before = lost
    with pytest.raises(StorageUnreachableError):
        publish(folder, storage, KNOWN)
    assert published(storage) is None
    storage.before = lambda method, key: None
    storage.lose_answers = 0
    publish(folder, storage, KNOWN)
    assert set(storage.content) == {"README.md", "onnx/model.onnx", "package.json"}


# Breaks if a package, or a job's checkpoints, can be overwritten.
def test_what_is_there_is_not_touched(folder: Path) -> None:
    storage = MemoryStorage()
    publish(folder, storage, KNOWN)
    with pytest.raises(PackageError, match="is a package already"):
        publish(folder, storage, KNOWN)
    other = MemoryStorage()
    other.put("manifests/1.json", b"x")
    with pytest.raises(PackageError, match=r"has manifests/1\.json, which is not of a package"):
        publish(folder, other, KNOWN)
    assert list(other.content) == ["manifests/1.json"]
    with pytest.raises(PackageError, match="is not of a package"):
        check_free(other, KNOWN)


def test_two_at_once(folder: Path) -> None:
    storage = MemoryStorage()

    def faster(method: str, key: str) -> None:
        if method == "put_if_absent":
            storage.before = lambda method, key: None
            storage.put("package.json", b"{}")

    storage.before = faster
    with pytest.raises(PackageError, match="another package meanwhile"):
        publish(folder, storage, KNOWN)
    assert storage.get("package.json") == b"{}"


# Breaks if an attempt on a node that seemed lost writes over the files of the package that its successor has made.
def test_a_slower_attempt_leaves_the_files_of_the_faster_one(folder: Path) -> None:
    storage = MemoryStorage()

    def faster(_method: str, key: str) -> None:
        if key == "README.md":
            storage.before = lambda method, key: None
            storage.content["onnx/model.onnx"], storage.content["package.json"] = b"theirs", b"{}"

    storage.before = faster
    with pytest.raises(PackageError, match="another package meanwhile"):
        publish(folder, storage, KNOWN)
    assert storage.get("onnx/model.onnx") == b"theirs"


def test_files_that_are_too_large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILE", 9_999)
    storage = MemoryStorage()
    with pytest.raises(PackageError, match=r"onnx/model\.onnx has over"):
        publish(folder, storage, KNOWN)
    assert storage.content == {}


# Breaks if a field of it is used before it is checked: the command says what is in the package that is there.
@pytest.mark.parametrize(
    "text", [b"[]", b"{", b'{"from": 1}', b'{"from": {"sha256": "1"}}', json.dumps(DOCUMENT | {"variants": 1}).encode()]
)
def test_what_is_not_a_package(text: bytes) -> None:
    storage = MemoryStorage()
    storage.put("package.json", text)
    with pytest.raises(PackageError, match="is damaged"):
        published(storage)
