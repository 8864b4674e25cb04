"""What a program needs beside the image: Python packages that `holdfast run` has locked and sent.

The list is an object of the job's storage; the hash of its bytes is `trainer.code.dependencies`. The command writes it,
the init container puts the packages into place, and the launcher looks whether they fit the image.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import document as kind
from .document import REQUIRED, DocumentError, decode, read_json

VERSION = 1
LIST_FILE = ".holdfast-dependencies.json"  # the list, beside the packages in a pod
MOST_PACKAGES = 1024
MOST_BYTES = 4 << 20  # of the list
_SHA256 = "[0-9a-f]{64}"
_PYTHON = "3\\.[0-9]{1,2}"


@dataclass(frozen=True)
class Package:
    """One package. `sha256`: the hash of the folder with its files, which is code/{sha256}.tar.gz; `size` in bytes."""

    name: str = kind.text(REQUIRED, most=256)
    version: str = kind.text(REQUIRED, most=256)
    sha256: str = kind.text(REQUIRED, form=_SHA256)
    size: int = kind.whole(REQUIRED)


@dataclass(frozen=True)
class Need:
    """What must be in the image: a requirement as packages write it, such as torch>=2.0, and who needs it."""

    requirement: str = kind.text(REQUIRED)
    by: str = kind.text(REQUIRED, most=256)


@dataclass(frozen=True)
class Dependencies:
    """All packages. `python`: for which version they were chosen, such as 3.11. `provided`: what is of the image."""

    python: str = kind.text(REQUIRED, form=_PYTHON)
    provided: tuple[Need, ...] = kind.parts(Need, most=4 * MOST_PACKAGES)
    packages: tuple[Package, ...] = kind.parts(Package, most=MOST_PACKAGES)
    version: int = kind.version(VERSION, name="v")


def read_list(content: bytes) -> Dependencies:
    """The list in its bytes. DocumentError says what is wrong."""
    if len(content) > MOST_BYTES:
        raise DocumentError("the list of dependencies", len(content), f"at most {MOST_BYTES} bytes")
    return decode(Dependencies, read_json(content, "the list of dependencies"))
