"""Image names. The local cluster has no images: a known name stands for folders on PATH and a few variables."""

import re
from collections.abc import Mapping

from holdfast_local.agent.config import ImageSpec

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{{32,}})?"
)


def is_valid(name: str) -> bool:
    """Whether a container runtime could parse this image name."""
    return bool(_REFERENCE.fullmatch(name))


def invalid_message(name: str) -> str:
    """The kubelet's words for InvalidImageName."""
    return f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": invalid reference format'


def find(name: str, images: Mapping[str, ImageSpec]) -> ImageSpec | None:
    """The image of that name, with the tag `latest` where none is written."""
    return images.get(name) or images.get(f"{name}:latest")


def pull_message(name: str, images: Mapping[str, ImageSpec]) -> str:
    """What ErrImagePull says: it is not found, and which names are."""
    known = ", ".join(sorted(images)) or "none"
    return f'failed to pull and unpack image "{name}": not found; the local cluster knows these images: {known}'
