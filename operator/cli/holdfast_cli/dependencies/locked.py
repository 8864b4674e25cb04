"""Exact versions of dependencies, for the Python and the platform of the image."""

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, is_normalized_name

from holdfast_cli.dependencies.declared import PROJECT, Declared, read_toml, readable, table
from holdfast_cli.dependencies.uv import run_uv
from holdfast_cli.errors import CliError, ExitCode
from holdfast_protocol.dependencies import Need

PROVIDED: Final = ("torch", "torchvision", "torchaudio", "triton")  # what an image has for its accelerators
OURS: Final = ("holdfast-train", "holdfast-protocol")  # an image has them as well
PLATFORM: Final = "x86_64-manylinux_2_28"
_NEWEST: Final = 99  # of the last number of a version of Python, which nobody names


@dataclass(frozen=True, slots=True)
class ForImage:
    """For what packages are chosen. `python`: such as 3.11. `provided`: canonical names that the image has."""

    python: str
    platform: str
    provided: frozenset[str]

    @property
    def options(self) -> tuple[str, ...]:
        """Of uv: packages for this Python and this platform."""
        return ("--python", sys.executable, "--python-version", self.python, "--python-platform", self.platform)

    @property
    def facts(self) -> tuple[str, ...]:
        """All that it says."""
        return (self.python, self.platform, *sorted(self.provided))


@dataclass(frozen=True, slots=True)
class Locked:
    """Versions with hashes, in the form of requirements.txt, which counts in `folder`.

    `provided`: what is directly required of the image. `extras`: those that are directly required, by package.
    """

    text: str
    folder: Path
    provided: tuple[Need, ...]
    extras: Mapping[str, frozenset[str]]

    def key(self, image: ForImage) -> str:
        """The same for the same list."""
        return digest(self.text, *image.facts, *(f"{need.by} {need.requirement}" for need in self.provided))


def for_image(python: str | None, platform: str | None, provided: Iterable[str] | None) -> ForImage:
    """What a person says of the image; None: the version of this Python, and the defaults. CliError if it is wrong."""
    platform = platform or PLATFORM
    if "linux" not in platform:
        raise CliError(f"--platform {platform}: pods run on Linux", code=ExitCode.USAGE, hint=f"such as {PLATFORM}")
    names = (*(PROVIDED if provided is None else provided), *OURS)
    for name in names:
        if not is_normalized_name(canonicalize_name(name)):
            raise CliError(f"--provided {name} is not the name of a package", code=ExitCode.USAGE, hint="such as torch")
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    return ForImage(python, platform, frozenset(map(canonicalize_name, names)))


def lock(found: Declared, image: ForImage, folder: Path, *, upgrade: bool = False) -> Locked:
    """Choose the versions. What was chosen for the same files stays, in `folder`, unless `upgrade`. Raises CliError."""
    where = found.path.parent
    if found.is_lock:
        if upgrade:
            raise CliError("uv.lock has the versions", code=ExitCode.USAGE, hint="uv lock --upgrade chooses others")
        text, pins = _exported(found, image)
    else:
        kept = folder / f"{digest(*found.files.values(), *image.facts, *_settings(where))}.txt"
        if upgrade or not kept.exists():
            _choose(found, image, kept)
        text, pins = kept.read_text(), found.requirements()
    _refuse_local(text)
    direct = tuple(pins)
    return Locked(text, where, tuple(needs(direct, image, found.path.name)), extras_of(direct))


def _choose(found: Declared, image: ForImage, kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as made:
        without, out = Path(made, "without.txt"), Path(made, "lock.txt")
        without.write_text("\n".join(sorted(image.provided)))
        form = ("--generate-hashes", "--emit-index-url", "--emit-find-links", "--no-header", "--no-annotate")
        run_uv(
            *("pip", "compile", str(found.path), "--excludes", str(without), *image.options, *form),
            *("--output-file", str(out)),
            folder=found.path.parent,
            doing=f"choose versions for {found.path.name}",
        )
        out.replace(kept)


def _settings(folder: Path) -> Iterator[str]:
    """Settings beside the file that decide which versions uv chooses in a folder, as far as they are there."""
    for path in (folder / "uv.toml", folder / PROJECT):
        if path.exists():
            tables = read_toml(path, path.read_bytes())
            yield json.dumps(tables if path.name != PROJECT else table(tables, "tool", "uv"), default=str)
    yield from (f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("UV_") and k != "UV_CACHE_DIR")


def _exported(found: Declared, image: ForImage) -> tuple[str, Iterable[Requirement]]:
    """What uv.lock says, as a text without what the image has, and the versions of what is directly required."""
    if not SpecifierSet(found.requires_python).contains(f"{image.python}.{_NEWEST}"):
        raise CliError(
            f"uv.lock is for Python {found.requires_python}, and the image has {image.python}",
            code=ExitCode.USAGE,
            hint="--python names the version of the image; or change requires-python, and run uv lock",
        )
    form = ("--no-header", "--no-annotate", "--emit-index-url", "--emit-find-links")
    export: Sequence[str] = ("export", "--locked", "--python", sys.executable, "--no-dev", "--no-emit-project", *form)
    pruned = (word for name in sorted(image.provided) for word in ("--prune", name))

    def text(*options: str) -> str:
        return run_uv(*export, *options, folder=found.path.parent, doing=f"read {found.path}")

    pins = (pin for pin in readable(text("--no-hashes").splitlines()) if pin.specifier)
    direct = found.direct()
    return text(*pruned), (_without_build(pin) for pin in pins if canonicalize_name(pin.name) in direct)


def _without_build(pin: Requirement) -> Requirement:
    """torch==2.9.1+cu128 as torch==2.9.1: an image may have it for another CUDA."""
    pin.specifier = SpecifierSet(",".join(str(one).partition("+")[0] for one in pin.specifier))
    return pin


def _refuse_local(text: str) -> None:
    """CliError if a lock names a project of this machine, which would have to be built."""
    for line in text.splitlines():
        shown = line.rstrip(" \\")
        word = shown.partition(" @ ")[2] or shown
        is_local = word.startswith(("-e ", ".", "/", "file:"))
        if is_local and not word.partition(" ")[0].partition("#")[0].endswith(".whl"):
            raise CliError(
                f"{shown} is a project of this machine, and not a wheel",
                code=ExitCode.USAGE,
                hint="build a wheel of it; or name it in PYTHONPATH with --env, if it is in the folder of the program",
            )


def needs(requirements: Iterable[Requirement], image: ForImage, by: str, extras: Iterable[str] = ()) -> Iterator[Need]:
    """Those requirements that the image must meet, in a pod. `extras`: of the package that requires them."""
    for one in requirements:
        if canonicalize_name(one.name) in image.provided and any(_applies(one, image, it) for it in ("", *extras)):
            yield Need(f"{one.name}{one.specifier}", by)


def extras_of(requirements: Iterable[Requirement]) -> dict[str, frozenset[str]]:
    """Which extras are required, by canonical name."""
    found: dict[str, frozenset[str]] = {}
    for one in requirements:
        name = canonicalize_name(one.name)
        found[name] = found.get(name, frozenset()) | one.extras
    return found


def _applies(requirement: Requirement, image: ForImage, extra: str) -> bool:
    machine = image.platform.partition("-")[0]
    pod = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    version = {"python_version": image.python, "python_full_version": f"{image.python}.0", "extra": extra}
    return requirement.marker is None or requirement.marker.evaluate({**pod, **version})


def digest(*parts: str | bytes) -> str:
    """One hash of all parts."""
    each = (part if isinstance(part, bytes) else part.encode() for part in parts)
    return sha256(b"\0".join(sha256(part).digest() for part in each)).hexdigest()
