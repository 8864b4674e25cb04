"""`make_release`: the folder build/release/VERSION, whole or not at all."""

import hashlib
import shutil
from collections.abc import Collection, Mapping
from importlib.metadata import metadata
from pathlib import Path
from typing import Final

from scripts.images.build import Built
from scripts.images.contents import build_wheels
from scripts.images.errors import BuildError
from scripts.images.source import Source, read_source
from scripts.release import sbom
from scripts.release.chart import package_chart
from scripts.release.notes import CHANGELOG, changes, write_notes
from scripts.release.provenance import Made, statement
from scripts.setup import PROJECTS, ROOT

FOLDER: Final = ROOT / "build" / "release"
SUMS: Final = "SHA256SUMS"
PROVENANCE: Final = "provenance.intoto.json"


def check(names: Collection[str], version: str) -> None:
    """BuildError if a release lacks an image that the chart names, or CHANGELOG.md says nothing of its version."""
    if missing := {"operator", "init"} - set(names):
        raise BuildError(f"a release needs the image {' and '.join(sorted(missing))}: the chart names both")
    changes(version, CHANGELOG.read_text(encoding="utf-8"))


def make_release(images: Mapping[str, Built], made: Made, source: Source, folder: Path = FOLDER) -> Path:
    """Make the folder of a version, and return it. `images` by their short names; operator and init must be there.

    What was in the folder of this version is replaced at the end. BuildError, also if the source has changed since.
    """
    check(images, source.version)
    fresh, target = folder / f".{source.version}", folder / source.version
    shutil.rmtree(fresh, ignore_errors=True)
    for part in ("wheels", "images", "charts", "crds", "sbom"):
        (fresh / part).mkdir(parents=True)
    for wheel in build_wheels(PROJECTS, fresh / "wheels", source.epoch):
        name = wheel.name.partition("-")[0]
        text = sbom.of_wheel(wheel, metadata(name)["Name"], sha256(wheel), source.epoch)
        (fresh / "sbom" / f"{wheel.name}.cdx.json").write_text(text, encoding="utf-8")
    for name, image in images.items():
        shutil.copyfile(image.archive, fresh / "images" / f"{name}.tar")
        for architecture in image.libraries:
            text = sbom.of_image(image, architecture, source.epoch)
            (fresh / "sbom" / f"{name}-{architecture}.cdx.json").write_text(text, encoding="utf-8")
    chart = fresh / "charts" / f"holdfast-{source.version}.tgz"
    package_chart(chart, images["operator"], images["init"], source.epoch)
    for crd in sorted((ROOT / "crds").glob("*.yaml")):
        shutil.copyfile(crd, fresh / "crds" / crd.name)
    (fresh / "RELEASE_NOTES.md").write_text(write_notes(source.version, images), encoding="utf-8")
    (fresh / PROVENANCE).write_text(statement(made, source, images, sums(fresh)), encoding="utf-8")
    lines = "".join(f"{digest}  {name}\n" for name, digest in sums(fresh).items())
    (fresh / SUMS).write_text(lines, encoding="utf-8")
    if read_source() != source:
        raise BuildError("files, or the commit, have changed while the release was made: make it again")
    if target.exists():
        shutil.rmtree(target)
    fresh.rename(target)
    return target


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, in hexadecimal, by its path."""
    return {path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
