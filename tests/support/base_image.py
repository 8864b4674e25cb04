"""A base image for tests, made once by debootstrap: Debian bookworm with its python3, which is 3.11."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from scripts.setup import cache_dir

from holdfast_local.locking import exclusive

PYTHON: Final = "3.11"
NAME: Final = "localhost/holdfast-test-base:bookworm"
MISSING: Final = "a base image for tests needs root, debootstrap and buildah"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_COPIED: Final = ("./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./var/log/*")


def is_possible() -> bool:
    """True if `base_image` can make the image on this machine, or has made it before."""
    return _archive().exists() or (os.geteuid() == 0 and all(map(shutil.which, ("debootstrap", "buildah"))))


def base_image() -> Path:
    """The OCI archive of the image, from the user's cache; the first call takes two minutes and needs the network.

    It has `python3` and `python`, certificates and a shell. CalledProcessError if debootstrap or buildah fails.
    """
    made = _archive()
    made.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(made.with_suffix(".lock")):
        if not made.exists():
            with tempfile.TemporaryDirectory(prefix=".base-", dir=made.parent) as folder:
                _make(Path(folder)).replace(made)
    return made


def _archive() -> Path:
    return cache_dir() / "test-images" / "bookworm-python3.tar"


def _make(folder: Path) -> Path:
    root, layer, archive = folder / "root", folder / "layer.tar", folder / "image.tar"
    packages = "--include=python3,ca-certificates"
    _run("debootstrap", "--variant=minbase", packages, "bookworm", str(root))
    (root / "usr/bin/python").symlink_to("python3")
    without = [f"--exclude={pattern}" for pattern in _NOT_COPIED]
    _run("tar", "-C", str(root), *without, "--numeric-owner", "-cf", str(layer), ".")
    container = _run("buildah", "from", "scratch")
    try:
        _run("buildah", "add", "--quiet", container, str(layer), "/")
        _run("buildah", "config", "--env", _PATH, "--cmd", "python3", container)
        image = _run("buildah", "commit", "--quiet", container, NAME)
        _run("buildah", "push", "--quiet", image, f"oci-archive:{archive}:{NAME}")
    finally:
        _run("buildah", "rm", container)
    return archive


def _run(*command: str) -> str:
    """The last word that the program wrote."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().rpartition("\n")[2]
