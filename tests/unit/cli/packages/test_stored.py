"""A package is copied whole and checked, or not at all."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_cli.errors import CliError
from holdfast_cli.packages import stored
from holdfast_cli.packages.stored import fetch, read_package
from holdfast_train.errors import KeyMissingError

DATA = bytes(range(250))
PAGES = {"README.md": b"# x", "empty": b""}


def package() -> tuple[MemoryStorage, dict[str, Any]]:
    storage = MemoryStorage()
    entry = {"bytes": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    pages = {name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in PAGES.items()}
    variants = {"onnx": {"files": {"onnx/model.onnx": entry}, "tested": {"passed": True}}}
    document = {"variants": variants, "pages": pages}
    written = json.dumps(document).encode()
    files = {"onnx/model.onnx": DATA, **PAGES, "package.json": written}
    for key, data in files.items():
        storage.put(key, data)
    return storage, document


def test_a_package_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "BLOCK_BYTES", 100)
    storage, document = package()
    assert read_package(storage) == document
    fetch(storage, document, tmp_path / "new" / "x")
    files = {
        str(path.relative_to(tmp_path / "new" / "x")): path.read_bytes()
        for path in tmp_path.rglob("*.*")
        if path.is_file()
    }
    assert files == {key: data for key, data in storage.content.items() if "." in key}
    assert (tmp_path / "new" / "x" / "empty").read_bytes() == b""


# Breaks if a changed byte, or a file that is not there, is first noticed when the model is used.
def test_what_is_damaged_is_not_copied(tmp_path: Path) -> None:
    storage, document = package()
    storage.put("onnx/model.onnx", DATA[:-1] + b"x")
    with pytest.raises(CliError, match=r"onnx/model\.onnx has changed"):
        fetch(storage, document, tmp_path / "x")
    storage.delete(["onnx/model.onnx"])
    with pytest.raises(KeyMissingError, match=r"package\.json names it"):
        fetch(storage, document, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# Breaks if a name in a storage can write outside of the folder.
def test_names_that_lead_out_are_left(tmp_path: Path) -> None:
    storage, document = package()
    for key in ("../evil", "a//b", "a/../../evil", "./x", "c\\d", "onnx/modeling.py"):
        storage.put(key, b"x")
    fetch(storage, document, tmp_path / "in" / "x")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "model.onnx", "README.md", "empty", "package.json",
    }  # fmt: skip


# Breaks if package.json of a stranger names a file outside of the folder, or one that is a link is replaced.
def test_package_json_cannot_name_a_file_outside(tmp_path: Path) -> None:
    storage, document = package()
    document["variants"]["onnx"]["files"]["../evil"] = document["variants"]["onnx"]["files"]["onnx/model.onnx"]
    storage.put("../evil", DATA)
    with pytest.raises(CliError, match=r"names the file '\.\./evil', which is outside of the package"):
        fetch(storage, document, tmp_path / "in" / "x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CliError, match="exists already"):
        stored.refuse_existing(tmp_path / "link")


@pytest.mark.parametrize(
    "text",
    [b"[]", b"{", b'{"variants": 1}', b"[" * 100_000, b'{"x":"' + b"a" * (17 << 20) + b'"}'],
    ids=["list", "cut", "number", "deep", "large"],
)
def test_what_is_not_a_package(text: bytes) -> None:
    storage = MemoryStorage()
    assert read_package(storage) is None
    storage.put("package.json", text)
    with pytest.raises(CliError, match="is not that of a package"):
        read_package(storage)
