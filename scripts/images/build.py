"""`build`: the images as OCI archives below build/images, one for each image with all its platforms."""

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.images import archive
from scripts.images.builder import ARCHIVE, Builder, Order, find_builder
from scripts.images.contents import IMAGES, LIBRARY, MACHINES, fill, find_python
from scripts.images.errors import BuildError
from scripts.images.source import read_source
from scripts.setup import ROOT

FOLDER: Final = ROOT / "build" / "images"
BASE: Final = "python:3.12-slim"
PYTHON: Final = "3.12"
REPOSITORY: Final = "holdfast.dev"  # as in the chart's values
_ANNOTATION: Final = "org.opencontainers.image"


class Built(NamedTuple):
    """An image: its OCI archive, and its digest as sha256:HEX. By architecture:

    `added`: bytes above the base on disk. `libraries`: folders with the packages that are in the image.
    """

    name: str
    archive: Path
    digest: str
    added: dict[str, int]
    libraries: dict[str, Path]

    @property
    def repository(self) -> str:
        """The name without the tag."""
        return self.name.rpartition(":")[0]


def build(
    names: Sequence[str] = tuple(IMAGES),
    *,
    base: str = BASE,
    python: str = PYTHON,
    architectures: Sequence[str] = ("amd64",),
    repository: str = REPOSITORY,
    builder: Builder | None = None,
    folder: Path = FOLDER,
) -> dict[str, Built]:
    """Build images by their names in IMAGES. The same source, base and Python give the same digests.

    `base`: an image with the Python of `python`, or oci-archive:PATH. `python`: its version such as 3.12, or the path
    of such an interpreter. `repository`: what comes before the image's name. BuildError, NoBuilderError.
    """
    for found, known in ((names, IMAGES), (architectures, MACHINES)):
        if wrong := [one for one in found if one not in known]:
            raise BuildError(f"{', '.join(wrong)}: not known; there are {', '.join(known)}")
    if base.startswith(ARCHIVE):
        _check_archive(base, architectures)
    source, interpreter = read_source(), find_python(python)
    builder = builder or find_builder()
    labels = {f"{_ANNOTATION}.version": source.version, f"{_ANNOTATION}.revision": source.revision}
    done: dict[str, Built] = {}
    for name in names:
        full_name, parts, added = f"{repository}/{name}:{source.version}", [], {}
        libraries = {architecture: folder / name / architecture / LIBRARY for architecture in architectures}
        for architecture in architectures:
            context, part = folder / name / architecture, folder / name / f"{architecture}.tar"
            fill(IMAGES[name], context, interpreter, architecture, source.epoch)
            dockerfile = ROOT / "images" / name / "Dockerfile"
            builder.build(Order(context, dockerfile, base, architecture, full_name, labels, source.epoch), part)
            _check(part, architecture, f"{interpreter.version[0]}.{interpreter.version[1]}")
            parts.append(part)
            added[architecture] = sum(path.stat().st_size for path in context.rglob("*") if path.is_file())
        target = folder / f"{name}.tar"
        digest = archive.join(parts, target, full_name, source.epoch)
        done[name] = Built(full_name, target, digest, added, libraries)
        for part in parts:
            part.unlink()
    return done


def _check_archive(base: str, architectures: Sequence[str]) -> None:
    """BuildError if a base is not an OCI archive, or lacks a platform: what builders say of that names neither."""
    try:
        there = archive.read_all(Path(base.removeprefix(ARCHIVE)))
    except (OSError, tarfile.TarError, LookupError, ValueError) as error:
        raise BuildError(f"--base {base}: this is not the path of an OCI archive that can be read: {error}") from error
    if lacking := [one for one in architectures if one not in there]:
        raise BuildError(
            f"--base {base} is for {', '.join(there)}, and --arch has {', '.join(lacking)}: name another base"
        )


def _check(part: Path, architecture: str, python: str) -> None:
    """BuildError if an image has another platform or Python than was asked for: the base decides."""
    image = archive.read(part)
    if (found := image.config["architecture"]) != architecture:
        raise BuildError(f"the base image is for {found}, and {architecture} was asked for: name another --base")
    pythons = archive.pythons(part, image)
    if pythons and python not in pythons:
        raise BuildError(
            f"the base image has Python {' and '.join(sorted(pythons))}, and the packages above it are for {python}: "
            "name another --base or --python"
        )
