"""What an image or a wheel consists of, as CycloneDX 1.6: packages of Python, and those of the base image."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.images import archive
from scripts.images.build import Built

DPKG: Final = "var/lib/dpkg/status"
OS: Final = "usr/lib/os-release"
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "holdfast.dev")


def of_image(image: Built, architecture: str, epoch: int) -> str:
    """The document for one platform of an image: what is added to the base, and the base's packages of Debian."""
    found = archive.read_all(image.archive)[architecture]
    name, _, version = image.name.rpartition(":")
    subject = Component(
        name=name, version=version, type=ComponentType.CONTAINER, bom_ref=image.name, hashes=[_sha256(found.digest)]
    )
    packages = {package.name: package for package in distributions(path=[str(image.libraries[architecture])])}
    files = archive.read_files(image.archive, found, (DPKG, OS))
    base = list(_of_debian(files)) if DPKG in files else []
    if not base:
        subject.properties.add(Property(name="holdfast:base", value="not listed: it has no database of dpkg"))
    base += _python_of(found)
    return _document(subject, packages.values(), base, epoch)


def of_wheel(wheel: Path, name: str, digest: str, epoch: int) -> str:
    """The document for a wheel: itself, and what it needs, in the versions that it is tested with."""
    packages: dict[str, Distribution] = {}
    _add_needed(name, frozenset(), packages, set())
    own = packages.pop(canonicalize_name(name))
    subject = _component(own, HashType(alg=HashAlgorithm.SHA_256, content=digest))
    subject.properties.add(Property(name="holdfast:file", value=wheel.name))
    return _document(subject, [own, *packages.values()], [], epoch)


def _add_needed(name: str, extras: frozenset[str], found: dict[str, Distribution], seen: set[object]) -> None:
    """Add a package of this environment, which is locked, and all that it needs with these extras."""
    key = canonicalize_name(name)
    if (key, extras) in seen:
        return
    seen.add((key, extras))
    package = found[key] = distribution(name)
    for need in map(Requirement, package.requires or ()):
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            _add_needed(need.name, frozenset(need.extras), found, seen)


def _document(subject: Component, packages: Iterable[Distribution], others: list[Component], epoch: int) -> str:
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, f"{subject.name} {[one.content for one in subject.hashes]}"))
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = subject
    components = {canonicalize_name(package.name): (package, _component(package)) for package in packages}
    listed = {name: part for name, (_, part) in components.items() if part.bom_ref != subject.bom_ref}
    for part in (*listed.values(), *others):
        bom.components.add(part)
    for name, (package, _) in components.items():
        needs = {canonicalize_name(Requirement(text).name) for text in package.requires or ()}
        bom.register_dependency(listed.get(name, subject), [listed[need] for need in needs & listed.keys()])
    if subject.type is ComponentType.CONTAINER:
        bom.register_dependency(subject, [*listed.values(), *others])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(package: Distribution, *hashes: HashType) -> Component:
    url = PackageURL("pypi", name=canonicalize_name(package.name), version=package.version)
    fields = package.metadata
    classified = [line for line in fields.get_all("Classifier") or () if line.startswith("License :: ")]
    written = [text for text in fields.get_all("License") or () if "\n" not in text]  # some write the whole text
    licenses = fields.get_all("License-Expression") or [line.rpartition(" :: ")[2] for line in classified] or written
    return Component(
        name=package.name,
        version=package.version,
        purl=url,
        bom_ref=str(url),
        hashes=hashes,
        licenses=map(LicenseFactory().make_from_string, licenses),
    )


def _of_debian(files: Mapping[str, bytes]) -> Iterable[Component]:
    """The packages that dpkg has installed."""
    lines = (line.partition("=") for line in files.get(OS, b"ID=debian").decode().splitlines())
    system = {key: value.strip('"') for key, _, value in lines}
    for stanza in files[DPKG].decode().strip().split("\n\n"):
        fields = HeaderParser().parsestr(stanza)
        if fields["Status"] != "install ok installed":
            continue
        qualifiers = {"arch": fields["Architecture"], "distro": f"{system['ID']}-{system.get('VERSION_ID', '')}"}
        url = PackageURL("deb", system["ID"], fields["Package"], fields["Version"], qualifiers)
        yield Component(name=fields["Package"], version=fields["Version"], purl=url, bom_ref=str(url))


def _python_of(image: archive.Found) -> list[Component]:
    """The Python of images that build their own, such as python:3.12-slim: it is not a package of Debian."""
    variables = dict(text.partition("=")[::2] for text in image.config["config"].get("Env", ()))
    if (version := variables.get("PYTHON_VERSION")) is None:
        return []
    url = PackageURL("generic", name="python", version=version)
    return [Component(name="python", version=version, purl=url, bom_ref=str(url))]


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))
