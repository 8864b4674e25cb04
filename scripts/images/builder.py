"""The programs that make an image of a folder: docker, podman or buildah, whichever works on this machine.

Whether one works is asked: each builds an empty image first.
"""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from scripts.images import archive
from scripts.images.errors import BuildError, NoBuilderError
from scripts.images.processes import output

ARCHIVE: Final = "oci-archive:"


class Order(NamedTuple):
    """An image to build. `base` is the name of an image, or oci-archive:PATH; None for a Dockerfile that names its own.

    `context`: the folder that is copied. `epoch`: the image's time in seconds since 1970.
    """

    context: Path
    dockerfile: Path
    base: str | None
    architecture: str
    name: str
    labels: Mapping[str, str]
    epoch: int


class Builder(ABC):
    """One program that builds images."""

    program: str

    @abstractmethod
    def build(self, order: Order, target: Path) -> None:
        """Build an image into the OCI archive `target`. BuildError if that fails."""


class Buildah(Builder):
    """buildah; podman has the same options. The image is in the program's store, too."""

    def __init__(self, program: str) -> None:
        self.program = program

    def build(self, order: Order, target: Path) -> None:
        """As Builder."""
        base = () if order.base is None else ("--build-arg", f"PYTHON={order.base}")
        labels = (part for key, value in order.labels.items() for part in ("--label", f"{key}={value}"))
        # Nothing runs in the build, so no isolation is needed; chroot is the kind that works without rights.
        image = output(
            *(self.program, "build", "--quiet", "--isolation", "chroot", "--layers=false", "--format", "oci", *base),
            *("--timestamp", str(order.epoch), "--platform", f"linux/{order.architecture}", *labels),
            *("--tag", order.name, "--file", order.dockerfile, order.context),
        )
        target.unlink(missing_ok=True)
        # By its id: another build may have taken the name.
        output(self.program, "push", "--quiet", image.strip(), f"{ARCHIVE}{target}:{order.name}")


class Docker(Builder):
    """docker with BuildKit. Its own store of images gets nothing: load the archive if you want it there."""

    program = "docker"

    def build(self, order: Order, target: Path) -> None:
        """As Builder."""
        base: tuple[str, ...] = ()
        if order.base is not None and order.base.startswith(ARCHIVE):
            layout = target.with_name("base-layout")
            archive.unpack(Path(order.base.removeprefix(ARCHIVE)), layout)
            digest = archive.read(Path(order.base.removeprefix(ARCHIVE))).digest
            base = ("--build-arg", "PYTHON=base", "--build-context", f"base=oci-layout://{layout}@{digest}")
        elif order.base is not None:
            base = ("--build-arg", f"PYTHON={order.base}")
        labels = (part for key, value in order.labels.items() for part in ("--label", f"{key}={value}"))
        # The record of the build and its SBOM, which BuildKit would add, name this machine and the time of the build.
        output(
            *("docker", "buildx", "build", "--quiet", "--provenance=false", "--sbom=false", *base, *labels),
            *("--build-arg", f"SOURCE_DATE_EPOCH={order.epoch}", "--platform", f"linux/{order.architecture}"),
            *("--output", f"type=oci,dest={target},name={order.name},rewrite-timestamp=true"),
            *("--file", order.dockerfile, order.context),
        )


BUILDERS: Final[tuple[Builder, ...]] = (Docker(), Buildah("podman"), Buildah("buildah"))


def find_builder(wanted: str | None = None) -> Builder:
    """The first program that builds an empty image, or the `wanted` one. NoBuilderError says why none does."""
    reasons: list[str] = []
    for builder in BUILDERS:
        if wanted not in (None, builder.program):
            continue
        if shutil.which(builder.program) is None:
            reasons.append(f"{builder.program} is not installed")
            continue
        try:
            _try(builder)
        except BuildError as error:
            reasons.append(f"{builder.program} does not build an empty image: {error}")
        else:
            return builder
    raise NoBuilderError(
        "no program of this machine builds images; install docker with buildx, podman, or buildah (Debian: `apt-get "
        f"install buildah`). {'; '.join(reasons)}"
    )


def _try(builder: Builder) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-image-") as place:
        folder = Path(place)
        dockerfile = folder / "Dockerfile"
        dockerfile.write_text('FROM scratch\nLABEL holdfast="a test of this builder"\n', encoding="utf-8")
        order = Order(folder, dockerfile, None, "amd64", "localhost/holdfast-test:latest", {}, 0)
        builder.build(order, folder / "image.tar")
        archive.read(folder / "image.tar")
