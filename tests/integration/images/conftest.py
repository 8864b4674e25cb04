"""Images that are built once for all tests of this folder."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.images.build import Built, build
from tests.support import base_image

NAMES = ("operator", "init")


@pytest.fixture(scope="session")
def build_in() -> Callable[[Path], dict[str, Built]]:
    """Builds operator and init container, upon the base for tests, into a folder."""

    def do(folder: Path) -> dict[str, Built]:
        base = f"oci-archive:{base_image.base_image()}"
        return build(NAMES, base=base, python=base_image.PYTHON, repository="localhost/holdfast-test", folder=folder)

    return do


@pytest.fixture(scope="session")
def images(build_in: Callable[[Path], dict[str, Built]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Both images."""
    return build_in(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="session")
def run_in() -> Callable[..., str]:
    """Runs a command in a container of an image, as its user, and returns what it prints."""

    def do(image: Built, *command: str) -> str:
        source = f"oci-archive:{image.archive}"
        name = subprocess.check_output(["buildah", "from", "--quiet", source], text=True).strip()
        try:
            words = ["buildah", "run", "--isolation", "chroot", name, "--", *command]
            return subprocess.check_output(words, text=True)
        finally:
            subprocess.check_call(["buildah", "rm", name], stdout=subprocess.DEVNULL)

    return do
