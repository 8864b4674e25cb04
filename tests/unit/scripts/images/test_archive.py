"""Archives of images: what is read of them, and how those of several platforms become one."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from scripts.images import archive

NAME = "holdfast.test/operator:1"


def make(path: Path, architecture: str) -> str:
    """Write an archive with an image of one layer, as builders do; returns its digest."""
    blobs: dict[str, bytes] = {}

    def add(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    config = add("config.v1+json", json.dumps({"os": "linux", "architecture": architecture}).encode())
    layer = add("layer.v1.tar", b"the layer that all platforms share")
    manifest = add("manifest.v1+json", json.dumps({"config": config, "layers": [layer]}).encode())
    index = json.dumps({"manifests": [{**manifest, "annotations": {"made": "yesterday"}}]}).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in {"index.json": index, **blobs}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
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
