"""Image names."""

import pytest

from holdfast_local.agent.config import ImageSpec
from holdfast_local.agent.container import images

KNOWN = {"holdfast.dev/plain:local": ImageSpec(), "python:latest": ImageSpec(path=("/x",))}


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "python:3.11",
        "library/python",
        "localhost:5000/a/b-c_d:v1",
        "Registry.example/a:B",
        "a@sha256:" + "0" * 64,
    ],
)
def test_valid(name: str) -> None:
    """Would break: a good image is called malformed."""
    assert images.is_valid(name)


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "a:", "a:b:c", "a//b", "-a", "a@sha256:12", "http://a/b"])
def test_invalid(name: str) -> None:
    """Would break: InvalidImageName is never seen."""
    assert not images.is_valid(name)


def test_find_adds_the_tag_latest() -> None:
    """Would break: images named without a tag."""
    assert images.find("python", KNOWN) == ImageSpec(path=("/x",))
    assert images.find("holdfast.dev/plain", KNOWN) is None


def test_the_message_lists_what_is_known() -> None:
    """Would break: a person who mistypes an image has to read code."""
    assert "holdfast.dev/plain:local, python:latest" in images.pull_message("no", KNOWN)
