"""The images, built of the checkout upon a small Debian, and programs inside them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.images import build as build_module
from scripts.images import contents
from scripts.images.build import Built, build
from scripts.images.errors import BuildError
from scripts.images.source import read_source
from tests.support import base_image

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not base_image.is_possible(), reason=base_image.MISSING),
]
LIMITS = {"operator": 120e6, "init": 40e6}  # bytes above the base
IMPORT_ALL = """
import importlib, pkgutil, holdfast
names = [one.name for one in pkgutil.walk_packages(holdfast.__path__, "holdfast.") if not one.name.endswith("__main__")]
for name in names: importlib.import_module(name)
print(len(names))
"""
COPY = """
import os, sys, tempfile
from holdfast_train.pod.library_copy import copy_library
sys.path[:0] = [str(copy_library(tempfile.mkdtemp()))]
import boto3
keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "here"}
boto3.client("s3", **keys).generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})
boto3.client("sts", **keys)
print(os.getuid(), boto3.__file__)
"""


Builds = Callable[[Path], dict[str, Built]]


# Breaks if a file has a time, a path, a mode or an order of this build: without `_same_everywhere`, for example.
def test_a_second_build_has_the_same_bytes(images: dict[str, Built], build_in: Builds, tmp_path: Path) -> None:
    again = build_in(tmp_path)
    for name in LIMITS:
        assert again[name].digest == images[name].digest
        assert again[name].archive.read_bytes() == images[name].archive.read_bytes()


# Breaks if what is never read stays: the classes of the Kubernetes client, the services of botocore.
def test_the_images_are_small(images: dict[str, Built]) -> None:
    for name, limit in LIMITS.items():
        assert images[name].added["amd64"] <= limit


# Breaks if `left_out` has a module that the operator imports.
def test_all_modules_of_the_operator_can_be_imported(images: dict[str, Built], run_in: Callable[..., str]) -> None:
    assert int(run_in(images["operator"], "python3", "-c", IMPORT_ALL)) > 150


# Breaks if the base is not looked at: such an image is pushed, and its command ends at once.
def test_a_base_with_another_python_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = contents.Python(Path(sys.executable), (3, 12))  # not every machine has a second one
    monkeypatch.setattr(build_module, "find_python", lambda wanted: here)
    base = f"oci-archive:{base_image.base_image()}"
    with pytest.raises(BuildError, match=r"has Python 3\.11, and the packages above it are for 3\.12"):
        build(("init",), base=base, folder=tmp_path)


# Breaks if a builder is asked for a platform that the base does not have: its message names no platform.
def test_a_base_without_the_platform_is_refused(tmp_path: Path) -> None:
    base = f"oci-archive:{base_image.base_image()}"
    with pytest.raises(BuildError, match="is for amd64, and --arch has arm64"):
        build(("init",), base=base, python=base_image.PYTHON, architectures=("amd64", "arm64"), folder=tmp_path)
    assert not list(tmp_path.iterdir())


# Breaks if the command is not on PATH, its packages are for another Python, or the user is another one.
@pytest.mark.parametrize("name", LIMITS)
def test_the_command_starts_without_rights(images: dict[str, Built], run_in: Callable[..., str], name: str) -> None:
    assert f"usage: holdfast-{name}" in run_in(images[name], f"holdfast-{name}", "--help")
    assert run_in(images[name], "id", "-u").strip() == "65532"


# Breaks if the image lacks a module, or data of S3, that a trainer's image gets from it.
def test_the_library_is_copied_out_of_the_image(images: dict[str, Built], run_in: Callable[..., str]) -> None:
    user, place = run_in(images["init"], "python3", "-c", COPY).split()
    assert user == "65532"
    assert place.endswith("/library/boto3/__init__.py")
    assert not place.startswith("/opt/holdfast")


# Breaks if packages are those of this machine: their libraries then are not for arm64.
def test_the_files_for_arm64_are_for_arm64(tmp_path: Path) -> None:
    python = contents.find_python(base_image.PYTHON)
    contents.fill(contents.IMAGES["init"], tmp_path / "arm64", python, "arm64", read_source().epoch)
    libraries = list((tmp_path / "arm64").rglob("*.so"))
    assert libraries
    assert {int.from_bytes(path.read_bytes()[18:20], "little") for path in libraries} == {183}  # AArch64, in ELF
