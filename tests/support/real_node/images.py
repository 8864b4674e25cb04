"""The images that real nodes have: Holdfast's own, and some that people might bring."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scripts.images.build import build
from scripts.images.builder import Builder, Order, find_builder
from tests.support import base_image
from tests.support.guard import temporary_folder
from tests.support.real_node.node import PAUSE_IMAGE

from holdfast_local import golang

_HERE = golang.target().partition("/")[2]
_ARCHIVE = "oci-archive:"
_BASE = "holdfast.test/base:1"
_ENTRY_POINT = "holdfast.test/entry-point:1"
_WITHOUT_PYTHON = "holdfast.test/without-python:1"
_NEXT_OPERATOR = "holdfast.dev/operator:next"


@dataclass(frozen=True)
class Images:
    """References of images, and their archives.

    Attributes:
        archives: the archive of each image, by its reference.
    """

    archives: dict[str, Path]
    base: str = _BASE
    with_entry_point: str = _ENTRY_POINT
    without_python: str = _WITHOUT_PYTHON
    next_operator: str = _NEXT_OPERATOR

    @classmethod
    @contextmanager
    def built(cls) -> Iterator[Self]:
        """Build the images of this tree on the base for tests; the archives are gone at the end."""
        base = base_image.base_image()
        ours = build(("operator", "init"), base=f"{_ARCHIVE}{base}", python=base_image.PYTHON, architectures=(_HERE,))
        archives = {one.name: one.archive for one in ours.values()}
        init = ours["init"].archive
        with temporary_folder("hf-images-") as folder:
            variants = _Variants(find_builder(), folder)
            archives |= {
                _BASE: base,
                _NEXT_OPERATOR: ours["operator"].archive,
                PAUSE_IMAGE: variants.build(PAUSE_IMAGE, base, 'ENTRYPOINT ["sleep", "infinity"]'),
                _ENTRY_POINT: variants.build(_ENTRY_POINT, init, 'ENTRYPOINT ["false"]'),
                _WITHOUT_PYTHON: variants.build(_WITHOUT_PYTHON, None, "COPY file /file"),
            }
            yield cls(archives)


class _Variants:
    """Builds images of one more line on another one."""

    def __init__(self, builder: Builder, folder: Path) -> None:
        self._builder = builder
        self._folder = folder

    def build(self, name: str, base: Path | None, line: str) -> Path:
        """The archive of the image: `base`, or nothing, and one line of a Dockerfile; `file` is there to copy."""
        place = self._folder / name.replace("/", "-").replace(":", "-")  # a colon ends a path for buildah
        context, dockerfile, archive = place / "context", place / "Dockerfile", place / "image.tar"
        context.mkdir(parents=True)
        (context / "file").write_text("no program\n")
        dockerfile.write_text(f"ARG PYTHON=scratch\nFROM ${{PYTHON}}\n{line}\n")
        order = Order(context, dockerfile, f"{_ARCHIVE}{base}" if base else None, _HERE, name, {}, 0)
        self._builder.build(order, archive)
        return archive
