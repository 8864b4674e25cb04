"""Build the container images, without a daemon and without emulation; `make images` runs it.

    python -m scripts.images [operator] [init] [trainer] [--arch amd64 arm64] [--base IMAGE] [--python 3.12]

Ends with 69 if no program of this machine builds images.
"""

import argparse
import sys
from collections.abc import Sequence

from scripts.images.build import BASE, PYTHON, REPOSITORY, Built, build
from scripts.images.builder import BUILDERS, find_builder
from scripts.images.contents import IMAGES, MACHINES
from scripts.images.errors import BuildError
from scripts.setup import ROOT


def parser() -> argparse.ArgumentParser:
    """The options that `make images` and `make release` share."""
    made = argparse.ArgumentParser(prog="make images", description="Build the container images as OCI archives.")
    made.add_argument("names", nargs="*", metavar="IMAGE", help=f"default: all of {', '.join(IMAGES)}")
    made.add_argument("--arch", nargs="+", default=["amd64"], metavar="ARCH", help=f"of {', '.join(MACHINES)}")
    made.add_argument("--base", default=BASE, help="the image below; or oci-archive:PATH (default: %(default)s)")
    made.add_argument("--python", default=PYTHON, help="its Python: a version, or a path (default: %(default)s)")
    made.add_argument("--repository", default=REPOSITORY, help="what is before the names (default: %(default)s)")
    programs = [one.program for one in BUILDERS]
    made.add_argument("--builder", choices=programs, help="default: the first that works on this machine")
    return made


def build_asked(options: argparse.Namespace) -> dict[str, Built]:
    """Build what the options say. BuildError, NoBuilderError."""
    return build(
        options.names or tuple(IMAGES),
        base=options.base,
        python=options.python,
        architectures=options.arch,
        repository=options.repository,
        builder=find_builder(options.builder),
    )


def table(images: dict[str, Built]) -> str:
    """A line for each image: name, what it adds to the base on disk, digest, archive."""
    rows = [("IMAGE", "ABOVE THE BASE", "DIGEST", "ARCHIVE")]
    for one in images.values():
        sizes = ", ".join(f"{size / 1e6:.0f} MB {architecture}" for architecture, size in one.added.items())
        rows.append((one.name, sizes, one.digest, str(one.archive.relative_to(ROOT))))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    try:
        images = build_asked(parser().parse_args(argv))
    except BuildError as error:
        sys.stderr.write(f"images: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{table(images)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
