"""Exact versions of dependencies, for the Python and the platform of the image."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from holdfast_cli.dependencies.declared import Declared, is_of
from holdfast_cli.dependencies.uv import run_uv
from holdfast_protocol.dependencies import Need

OF_IMAGE: Final = ("torch", "torchvision", "torchaudio", "triton")  # what an image has for its accelerators
PLATFORM: Final = "x86_64-manylinux_2_28"
_CHECKS: Final = "packaging"  # it compares versions in the pod


@dataclass(frozen=True, slots=True)
class Target:
    """For what packages are chosen. `python`: such as 3.11. `of_image`: canonical names that the image has."""

    python: str
    platform: str
    of_image: frozenset[str]

    @property
    def options(self) -> tuple[str, ...]:
        """Of uv: only wheels for this Python and this platform."""
        return ("--python-version", self.python, "--python-platform", self.platform, "--only-binary", ":all:")


@dataclass(frozen=True, slots=True)
class Locked:
    """Versions with hashes, in the form of requirements.txt, and what is directly required of the image."""

    text: str
    of_image: tuple[Need, ...]

    def key(self, target: Target) -> str:
        """The same for the same list."""
        needs = (f"{need.by} {need.requirement}" for need in self.of_image)
        parts = (self.text, target.python, target.platform, *sorted(target.of_image), *needs)
        return sha256("\0".join(parts).encode()).hexdigest()


def canonical(names: Iterable[str]) -> frozenset[str]:
    """Names of packages as they are compared."""
    return frozenset(map(canonicalize_name, names))


def lock(found: Declared, target: Target, folder: Path, *, upgrade: bool = False) -> Locked:
    """Choose the versions. What was chosen for the same files stays, in `folder`, unless `upgrade`. Raises CliError."""
    if found.is_lock:
        return _exported(found, target)
    key = sha256(b"\0".join([*found.files.values(), *(one.encode() for one in target.options)])).hexdigest()
    kept = folder / f"{key}-{_digest(target.of_image)}.txt"
    if upgrade or not kept.exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            without, checks, out = (Path(made, name) for name in ("without.txt", "checks.txt", "lock.txt"))
            without.write_text("\n".join(sorted(target.of_image)))
            checks.write_text(_CHECKS)
            hashed = (
                "--generate-hashes",
                "--emit-index-url",
                "--no-header",
                "--no-annotate",
                "--output-file",
                str(out),
            )
            run_uv(
                *("pip", "compile", str(found.path), str(checks), "--excludes", str(without), *target.options, *hashed),
                folder=found.path.parent,
                doing=f"choose versions for {found.path.name}",
            )
            out.replace(kept)
    return Locked(kept.read_text(), tuple(_needs(found.requirements(), target, found.path.name)))


def _exported(found: Declared, target: Target) -> Locked:
    """What uv.lock says."""
    export: Sequence[str] = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate")
    pruned = (word for name in sorted(target.of_image) for word in ("--prune", name))

    def text(*options: str) -> str:
        return run_uv(*export, *options, folder=found.path.parent, doing=f"read {found.path}")

    pins = (Requirement(line.partition(" \\")[0]) for line in text("--no-hashes").splitlines() if "==" in line)
    return Locked(text(*pruned), tuple(_needs(pins, target, found.path.name)))


def _needs(requirements: Iterable[Requirement], target: Target, by: str) -> Iterable[Need]:
    return (Need(plain(one), by) for one in requirements if is_of(one, target.of_image) and applies(one, target))


def plain(requirement: Requirement) -> str:
    """The name and the versions, without extras and marker."""
    return f"{requirement.name}{requirement.specifier}"


def applies(requirement: Requirement, target: Target) -> bool:
    """True if a marker does not leave it out, in a pod and without extras."""
    machine = target.platform.partition("-")[0]
    pod = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    version = {"python_version": target.python, "python_full_version": f"{target.python}.0", "extra": ""}
    return requirement.marker is None or requirement.marker.evaluate({**pod, **version})


def _digest(names: frozenset[str]) -> str:
    return sha256("\0".join(sorted(names)).encode()).hexdigest()[:8]
