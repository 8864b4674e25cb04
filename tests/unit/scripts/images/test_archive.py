"""Archives of images: what is read of them, and how those of several platforms become one."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from scripts.images import archive

NAME = "holdfast.test/operator:1"
SHARED = b"the layer that all platforms share"


def make(path: Path, architecture: str, content: bytes = SHARED) -> str:
    """Write an archive with an image of one layer, as builders do; returns its digest."""
    blobs: dict[str, bytes] = {}

    def add(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    config = add("config.v1+json", json.dumps({"os": "linux", "architecture": architecture}).encode())
    layer = add("layer.v1.tar", content)
    manifest = add("manifest.v1+json", json.dumps({"config": config, "layers": [layer]}).encode())
    index = json.dumps({"manifests": [{**manifest, "annotations": {"made": "yesterday"}}]}).encode()
    with tarfile.open(path, "w") as tar:
        for name, blob in {"index.json": index, **blobs}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(blob)
            tar.addfile(entry, io.BytesIO(blob))
    return str(manifest["digest"])


def documents(path: Path) -> dict[str, Any]:
    """All documents of an archive, by the names of their files."""
    with tarfile.open(path) as tar:
        files = {one.name: tar.extractfile(one) for one in tar.getmembers()}
        return {name: found.read() for name, found in files.items() if found is not None}


# Breaks if an image is written anew: registries and clusters know it by its digest.
def test_one_image_keeps_its_digest(tmp_path: Path) -> None:
    made = make(tmp_path / "amd64.tar", "amd64")
    target = tmp_path / "all.tar"
    assert archive.join([tmp_path / "amd64.tar"], target, NAME, 0) == made
    assert archive.read(target).digest == archive.digest(target) == made
    assert archive.read(target).descriptor["annotations"]["io.containerd.image.name"] == NAME


# Breaks if the list lacks a platform, or a blob that its images need.
def test_several_images_become_a_list(tmp_path: Path) -> None:
    parts = [tmp_path / "amd64.tar", tmp_path / "arm64.tar"]
    digests = [make(part, part.stem) for part in parts]
    digest = archive.join(parts, tmp_path / "all.tar", NAME, 7)
    found = documents(tmp_path / "all.tar")
    listed = json.loads(found[f"blobs/{digest.replace(':', '/')}"])["manifests"]
    assert [(one["digest"], one["platform"]["architecture"]) for one in listed] == [
        (digests[0], "amd64"),
        (digests[1], "arm64"),
    ]
    blobs = {name for part in parts for name in documents(part) if name.startswith("blobs/")}
    assert blobs < found.keys()
    assert archive.digest(tmp_path / "all.tar") == digest
    assert {name: one.digest for name, one in archive.read_all(tmp_path / "all.tar").items()} == {
        "amd64": digests[0],
        "arm64": digests[1],
    }


# Breaks if an archive has the time of this machine.
def test_the_archive_follows_from_the_images(tmp_path: Path) -> None:
    make(tmp_path / "amd64.tar", "amd64")
    for name in ("one", "other"):
        archive.join([tmp_path / "amd64.tar"], tmp_path / name, NAME, 7)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with tarfile.open(tmp_path / "one") as tar:
        assert {member.mtime for member in tar.getmembers()} == {7}


# Breaks if a folder that only has packages for a Python is taken for that Python, or the one of Fedora is not found.
def test_a_python_is_known_by_its_library(tmp_path: Path) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w:gz") as tar:
        for name in (
            "./usr/lib64/python3.11/os.py",
            "usr/local/lib/python3.12/site-packages/os.py",
            "usr/bin/python3.13",
        ):
            tar.addfile(tarfile.TarInfo(name))
    make(tmp_path / "image.tar", "amd64", layer.getvalue())
    found = archive.read(tmp_path / "image.tar")
    assert archive.pythons(tmp_path / "image.tar", found) == {"3.11"}
