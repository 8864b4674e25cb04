"""Build the container images, without a daemon and without emulation; `make images` runs it.

    python -m scripts.images [operator] [init] [trainer] [--arch amd64 arm64] [--base IMAGE] [--python 3.12]

Ends with 69 if no program of this machine builds images.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final

from scripts.images.build import BASE, PYTHON, REPOSITORY, Built, build
from scripts.images.builder import BUILDERS, find_builder
from scripts.images.contents import IMAGES, MACHINES
from scripts.images.errors import BuildError
from scripts.setup import ROOT

from holdfast_local.locking import exclusive

INTERRUPTED: Final = 130  # as shells say it


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


def run_alone(program: str, work: Callable[[], str]) -> int:
    """Do `work` while no other command builds in this clone, and print what it returns. Returns the exit code."""
    lock = ROOT / "build" / ".lock"
    try:
        lock.parent.mkdir(exist_ok=True)
        with exclusive(lock, lambda: _say(program, f"another build has {lock}; this one starts after it")):
            said = work()
    except BuildError as error:
        _say(program, str(error))
        return error.exit_code
    except OSError as error:
        _say(program, f"{error}; see that there is room, and that you may write there")
        return 1
    except KeyboardInterrupt:
        _say(program, "interrupted; run it again")
        return INTERRUPTED
    sys.stdout.write(f"{said}\n")
    return 0


def _say(program: str, text: str) -> None:
    sys.stderr.write(f"{program}: {text}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = parser().parse_args(argv)
    return run_alone("images", lambda: table(build_asked(options)))


if __name__ == "__main__":
    sys.exit(main())
