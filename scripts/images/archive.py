"""OCI archives: read what an image is, and join images of several platforms into one archive.

Builders write the time of the build into an archive. `join` writes one whose bytes follow from the images alone.
"""

import hashlib
import io
import json
import re
import shutil
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

INDEX: Final = "application/vnd.oci.image.index.v1+json"
_LIBRARY: Final = re.compile(r"\blib(?:64)?/python(\d+\.\d+)/os\.py$")  # by this file Python finds its library
_LAYOUT: Final = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()


class Found(NamedTuple):
    """An image in an archive. `digest` as sha256:HEX; `config`: its document of this name."""

    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]
    descriptor: dict[str, Any]

    @property
    def base_layers(self) -> list[str]:
        """Digests of the layers of the base, uncompressed, lowest first. Ours is one layer above them."""
        layers: list[str] = self.config["rootfs"]["diff_ids"]
        return layers[:-1]


def read(archive: Path) -> Found:
    """The only image of an archive with one platform."""
    (found,) = read_all(archive).values()
    return found


def read_all(archive: Path) -> dict[str, Found]:
    """The images of an archive by their architecture, such as amd64."""
    with tarfile.open(archive) as tar:
        descriptors = json.loads(_bytes(tar, "index.json"))["manifests"]
        if descriptors[0]["mediaType"] == INDEX:
            descriptors = json.loads(_bytes(tar, _blob(descriptors[0]["digest"])))["manifests"]
        return {found.config["architecture"]: found for found in (_read_one(tar, one) for one in descriptors)}


def read_files(archive: Path, image: Found, names: Collection[str]) -> dict[str, bytes]:
    """Files of an image, by their names without a leading slash; those that are not there are left out."""
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for layer in image.manifest["layers"]:  # a higher layer replaces what a lower one has
            with tarfile.open(fileobj=tar.extractfile(_blob(layer["digest"])), mode="r|*") as files:
                for member in files:
                    name = member.name.removeprefix("./")
                    if name in names and (content := files.extractfile(member)) is not None:
                        found[name] = content.read()
    return found


def pythons(archive: Path, image: Found) -> set[str]:
    """Versions of Python whose standard library is in an image, such as 3.12."""
    with tarfile.open(archive) as tar:
        found: set[str] = set()
        for layer in image.manifest["layers"]:
            with tarfile.open(fileobj=tar.extractfile(_blob(layer["digest"])), mode="r|*") as files:
                found |= {match[1] for member in files if (match := _LIBRARY.search(member.name))}
    return found


def digest(archive: Path) -> str:
    """The digest that names all of an archive: of its image, or of its list of images."""
    with tarfile.open(archive) as tar:
        (descriptor,) = json.loads(_bytes(tar, "index.json"))["manifests"]
    return str(descriptor["digest"])


def join(archives: Sequence[Path], target: Path, name: str, epoch: int) -> str:
    """Write the images of `archives`, of one platform each, as one archive called `name`. Returns its digest.

    One image keeps its digest; several get a list of images, an OCI index, with a digest of its own.
    """
    images = [read(archive) for archive in archives]
    made: dict[str, bytes] = {}
    if len(images) == 1:
        top = images[0].descriptor
    else:
        listed = [{**_plain(one.descriptor), "platform": _platform(one.config)} for one in images]
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}, sort_keys=True).encode()
        top = {"mediaType": INDEX, "digest": f"sha256:{hashlib.sha256(index).hexdigest()}", "size": len(index)}
        made[_blob(top["digest"])] = index
    # containerd reads the first, skopeo, podman and docker read the second.
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    entry = {"schemaVersion": 2, "manifests": [{**_plain(top), "annotations": names}]}
    made |= {"oci-layout": _LAYOUT, "index.json": json.dumps(entry, sort_keys=True).encode()}
    temporary = target.with_name(f".{target.name}")
    with tarfile.open(temporary, "w") as tar:
        for path, content in sorted(made.items()):
            _add(tar, path, len(content), io.BytesIO(content), epoch)
        _copy_blobs(archives, tar, set(made), epoch)
    temporary.replace(target)
    return str(top["digest"])


def _copy_blobs(archives: Sequence[Path], target: tarfile.TarFile, there: set[str], epoch: int) -> None:
    for archive in archives:
        with tarfile.open(archive) as source:
            for member in sorted(source.getmembers(), key=lambda one: one.name):
                content = source.extractfile(member)
                if content is not None and member.name.startswith("blobs/") and member.name not in there:
                    there.add(member.name)
                    _add(target, member.name, member.size, content, epoch)


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes], epoch: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch, 0o644
    tar.addfile(entry, content)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive as an OCI layout, which is what docker takes as a base."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _bytes(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found.read()


def _read_one(tar: tarfile.TarFile, descriptor: dict[str, Any]) -> Found:
    manifest = json.loads(_bytes(tar, _blob(descriptor["digest"])))
    config = json.loads(_bytes(tar, _blob(manifest["config"]["digest"])))
    return Found(descriptor["digest"], manifest, config, descriptor)


def _blob(of: str) -> str:
    return f"blobs/{of.replace(':', '/')}"


def _plain(descriptor: dict[str, Any]) -> dict[str, Any]:
    return {key: descriptor[key] for key in ("mediaType", "digest", "size")}


def _platform(config: dict[str, Any]) -> dict[str, str]:
    return {key: config[key] for key in ("os", "architecture")}
