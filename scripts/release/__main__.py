"""Make a release of the newest commit, in build/release/VERSION; `make release` runs it.

    python -m scripts.release [IMAGE ...] [--source ADDRESS] [--by ADDRESS] [the options of `make images`]

Ends with 69 if no program of this machine builds images.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from scripts.images.__main__ import build_asked, parser, run_alone, table
from scripts.images.contents import IMAGES
from scripts.images.errors import BuildError
from scripts.images.source import read_source
from scripts.release.folder import check, make_release
from scripts.release.provenance import Made

SHOWN: Final = 5  # files that are not committed, in a message


def release_parser() -> argparse.ArgumentParser:
    """The options."""
    made = parser()
    made.prog, made.description = "make release", "Make a release: wheels, images, chart, CRDs, SBOMs, checksums."
    made.add_argument("--source", default="https://holdfast.dev", help="address of the repository, for the provenance")
    made.add_argument("--by", default="https://holdfast.dev/by-hand", help="address of what runs this, for the same")
    return made


def release(options: argparse.Namespace) -> str:
    """Make what the options say. Returns what to print. BuildError, NoBuilderError."""
    source = read_source()
    if source.changed:
        more = f" and {len(source.changed) - SHOWN} more" if len(source.changed) > SHOWN else ""
        raise BuildError(
            "files are changed and not committed, so nobody could make this release again: "
            f"{', '.join(source.changed[:SHOWN])}{more}. Commit them, remove them, or name them in .gitignore"
        )
    check(options.names or IMAGES, source.version)
    images = build_asked(options)
    how = Made(options.base, options.python, options.arch, options.source, options.by)
    return f"{table(images)}\n{make_release(images, how, source)}"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = release_parser().parse_args(argv)
    return run_alone("release", lambda: release(options))


if __name__ == "__main__":
    sys.exit(main())
