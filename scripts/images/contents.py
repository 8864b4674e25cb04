"""Fill a folder with the files of an image: locked packages and our own, for the image's Python and platform.

In the image, packages lie in /opt/holdfast/lib, commands in /usr/local/bin, and a .pth file leads every `python3`
there. Debian's own Python reads .pth files in dist-packages, others read them in site-packages: there is one in each.
"""

import os
import shutil
from collections.abc import Sequence
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hatchling.builders.wheel import WheelBuilder
from scripts import setup
from scripts.images.errors import BuildError
from scripts.images.processes import output
from scripts.images.source import EPOCH
from scripts.setup import ROOT

from holdfast_train.pod.library_copy import SERVICES

LIBRARY: Final = "opt/holdfast/lib"
COMMANDS: Final = "usr/local/bin"
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""By the name of the architecture in images: what Python calls it."""

# What no image needs: it says how a package came there, with paths and times of this machine.
_INSTALLED = tuple(
    f"*.dist-info/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
)
# The operator speaks JSON with the API server. Of the Kubernetes client, 70 of 75 MB are classes for each kind of
# object and its API, which that package imports only when they are asked for.
_KUBERNETES = tuple(
    f"kubernetes/{client}/{part}/[!_]*" for client in ("client", "aio/client") for part in ("api", "models")
)


class Image(NamedTuple):
    """`lock`: below requirements/. `projects`: folders of our distributions. `left_out`: patterns below the library."""

    lock: str
    projects: tuple[Path, ...]
    left_out: tuple[str, ...] = ()
    is_s3_alone: bool = False
    """True: of botocore's data, only what is needed for S3 and for identities is kept."""


_PROTOCOL = ROOT / "operator" / "protocol"
_TRAINER = ROOT / "images" / "trainer"
IMAGES: Final = {
    "operator": Image("operator.txt", (ROOT, _PROTOCOL), _KUBERNETES),
    "init": Image("init.txt", (_TRAINER, _PROTOCOL), ("boto3/examples",), is_s3_alone=True),
    "trainer": Image("trainer.txt", (_TRAINER, ROOT / "images" / "model", _PROTOCOL)),
}
# A command finds its packages by the .pth file. If the image has another Python, the message says so.
_COMMAND = """\
#!/usr/bin/env python3
import sys
if sys.version_info[:2] != ({major}, {minor}):
    sys.exit("{name}: the packages of this image are for Python {major}.{minor}, and its python3 is %d.%d: "
             "build it with another --base or --python" % sys.version_info[:2])
from {module} import {function}
sys.exit({call}())
"""


class Python(NamedTuple):
    """The Python of an image: an interpreter of this machine with the same minor version, to compile with."""

    executable: Path
    version: tuple[int, int]


def find_python(wanted: str) -> Python:
    """The interpreter for `wanted`: a version such as 3.12, or a path. BuildError if this machine has none."""
    try:
        found = Path(output(setup.uv(), "python", "find", "--no-project", wanted).strip())
    except BuildError as error:
        raise BuildError(
            f"--python {wanted}: uv finds no such Python on this machine, and files of the image are compiled with it; "
            f"install it, or give the path of one. {error}"
        ) from error
    major, minor = output(found, "-c", "import sys; print(*sys.version_info[:2])").split()
    return Python(found, (int(major), int(minor)))


def build_wheels(projects: Sequence[Path], folder: Path, epoch: int) -> list[Path]:
    """Build the wheels of our distributions into `folder`. Nothing is fetched: the build backend is installed."""
    os.environ[EPOCH] = str(epoch)  # hatchling reads it
    builders = (WheelBuilder(str(project)) for project in projects)
    return [Path(next(builder.build(directory=str(folder), versions=["standard"]))) for builder in builders]


def fill(image: Image, folder: Path, python: Python, architecture: str, epoch: int) -> None:
    """Put the files of an image into `folder`, which is emptied before. BuildError if a package cannot be installed."""
    shutil.rmtree(folder, ignore_errors=True)
    library = folder / LIBRARY
    version = f"{python.version[0]}.{python.version[1]}"
    install = (
        *(setup.uv(), "pip", "install", "--quiet", "--target", library, "--link-mode", "copy", "--no-deps"),
        *("--python-platform", f"{MACHINES[architecture]}-manylinux_2_28", "--python-version", version),
    )
    output(*install, "--require-hashes", "--only-binary", ":all:", "-r", ROOT / "requirements" / image.lock)
    with TemporaryDirectory(prefix="holdfast-wheels-") as place:
        output(*install, "--offline", *build_wheels(image.projects, Path(place), epoch))
    commands = _commands(library)
    _leave_out(image, library)
    for point in commands:
        _write_command(folder / COMMANDS, point, python)
    for packages in ("site-packages", "dist-packages"):
        pth = folder / f"usr/local/lib/python{version}" / packages / "holdfast.pth"
        pth.parent.mkdir(parents=True)
        pth.write_text(f"/{LIBRARY}\n", encoding="utf-8")
    _compile(library, python)
    _same_everywhere(folder, epoch)


def _commands(library: Path) -> list[EntryPoint]:
    """The commands of all packages."""
    found = (point for package in distributions(path=[str(library)]) for point in package.entry_points)
    return [point for point in found if point.group == "console_scripts"]


def _write_command(folder: Path, point: EntryPoint, python: Python) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    major, minor = python.version
    names = {"name": point.name, "module": point.module, "function": point.attr.split(".")[0], "call": point.attr}
    (folder / point.name).write_text(_COMMAND.format(**names, major=major, minor=minor), encoding="utf-8")


def _leave_out(image: Image, library: Path) -> None:
    """Remove what is never read."""
    shutil.rmtree(library / "bin", ignore_errors=True)  # commands with the path of this machine's Python
    (library / ".lock").unlink(missing_ok=True)
    gone = [path for pattern in (*_INSTALLED, *image.left_out) for path in library.glob(pattern)]
    if image.is_s3_alone:
        services = (path for path in (library / "botocore" / "data").iterdir() if path.is_dir())
        gone += [path for path in services if path.name not in SERVICES]
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _compile(library: Path, python: Python) -> None:
    """Compile all modules, so that a start on a read-only root does not: for the operator, 2.3 s of a core.

    The compiled files do not name the time of their source, which builders change. One process: with several, the bytes
    differ from one build to the next.
    """
    options = ("-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
    output(python.executable, *options, "-s", library, "-p", f"/{LIBRARY}", library, extra={"PYTHONHASHSEED": "0"})


def _same_everywhere(folder: Path, epoch: int) -> None:
    """Give all files times and modes that do not depend on this machine."""
    for path in sorted((folder, *folder.rglob("*")), reverse=True):
        is_command = path.parent == folder / COMMANDS or os.access(path, os.X_OK)
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or is_command else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
