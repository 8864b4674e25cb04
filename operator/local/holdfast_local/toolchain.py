"""The tools of the local cluster, built once from pinned Go modules and cached.

A tool is cached under a key of everything that decides what it is: its go.mod, go.sum and main.go, the build flags and
the platform. It is built beside the cache entry and renamed into place, so that a cache entry is always whole.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from holdfast_cli.cache import cache_dir
from holdfast_local import assets, golang
from holdfast_local.errors import ToolError
from holdfast_local.locking import exclusive
from holdfast_local.progress_bar import Report, Silent, Update

MODULES = Path(__file__).parent / "tools"
_SOURCES = ("go.mod", "go.sum", "main.go")
_TAIL = 30
_GIB = 1024**3


@dataclass(frozen=True)
class Tool:
    """One binary that is built from a Go module of this package.

    Attributes:
        name: of the binary, and of the module's folder unless `folder` names another.
        package: what to build: an import path, or `.` for our own main.go.
        module: the module whose version the tool reports.
        stamp: variables that get the version, as import path and name; `%` stands for the version.
        links: further names of a multi-call binary.
        tags: build tags.
        space: bytes of free disk that a cold build needs.
        estimate: how long a cold build takes on 2 cores that have nothing else to do, for people.
        folder: of the module, for a tool that shares its module with another one.
        modules: where that folder is; None: among the modules of this package.
    """

    name: str
    package: str
    module: str
    stamp: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    space: int = 2 * _GIB
    estimate: str = "about 1 minute"
    folder: str = ""
    modules: Path | None = None

    @property
    def sources(self) -> Path:
        """The folder of the tool's go.mod and go.sum."""
        return (self.modules or MODULES) / (self.folder or self.name)


_VERSION = "k8s.io/component-base/version"


class ToolName(StrEnum):
    """Keys of TOOLS."""

    KUBERNETES = "kubernetes"
    VERSITYGW = "versitygw"
    PROMETHEUS = "prometheus"


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "kubernetes",
            ".",
            "k8s.io/kubernetes",
            stamp=(f"{_VERSION}.gitVersion=%", f"{_VERSION}.gitTreeState=clean"),
            links=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
            space=4 * _GIB,
            estimate="about 4 minutes",
        ),
        Tool(
            "versitygw",
            "github.com/versity/versitygw/cmd/versitygw",
            "github.com/versity/versitygw",
            stamp=("main.Version=%",),
        ),
        Tool(
            "prometheus",
            "github.com/prometheus/prometheus/cmd/prometheus",
            "github.com/prometheus/prometheus",
            stamp=("github.com/prometheus/common/version.Version=%",),
            # Without the clients of clouds, which find targets: they are most of the build.
            tags=("remove_all_sd", "enable_kubernetes_sd"),
            space=3 * _GIB,
            estimate="about 3 minutes",
        ),
    )
}


def module_version(tool: Tool, module: str = "") -> str:
    """The version of the tool, for example `v1.36.3`, or of another module that it is built from; from its go.mod."""
    module = module or tool.module
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", (tool.sources / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise ToolError(
            f"{tool.sources / 'go.mod'} does not require {module}: the installation is damaged; "
            "reinstall holdfast-local"
        )
    return found[1]


def minimum_go(tool: Tool) -> golang.Version:
    """The Go version that the tool's go.mod asks for."""
    found = re.search(r"^go (\S+)", (tool.sources / "go.mod").read_text(), re.MULTILINE)
    version = golang.parse_version(f"go{found[1]}") if found else None
    if not version:
        raise ToolError(
            f"{tool.sources / 'go.mod'} names no Go version: the installation is damaged; reinstall holdfast-local"
        )
    return version


def flags(tool: Tool) -> tuple[str, ...]:
    """The flags of `go build` that decide what the binary is."""
    version = module_version(tool)
    stamps = [f"-X {stamp.replace('%', version)}" for stamp in tool.stamp]
    tags = ("-tags", ",".join(tool.tags)) if tool.tags else ()
    return "-mod=readonly", "-trimpath", *tags, "-ldflags", " ".join(["-s -w", *stamps])


def cache_key(tool: Tool) -> str:
    """16 hexadecimal digits that change with everything that changes the binary."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        source = tool.sources / name
        if source.exists():
            digest.update(f"{name}\0".encode() + source.read_bytes() + b"\0")
    for part in (tool.package, *flags(tool), *tool.links, golang.target()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def cached(tool: Tool) -> Path:
    """Where the binary is, or will be when it is built."""
    return cache_dir() / "tools" / f"{tool.name}-{cache_key(tool)}" / tool.name


class _Processes:
    """Starts the processes of a build. `end` ends them from another thread.

    `beside`: another build runs. They take only the time of the processors that it leaves, so they follow it, and find
    the packages that both need in the compiler's cache.
    """

    def __init__(self, *, beside: bool = False) -> None:
        self._first = ("nice", "-n", "19") if beside else ()
        self._lock = threading.Lock()
        self._ended = False
        self._newest: subprocess.Popen[str] | None = None

    def start(self, command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
        """Start one, when the one before has ended. Raises ToolError after `end`."""
        with self._lock:
            if self._ended:
                raise ToolError("the build was ended, because the one beside it did not succeed")
            self._newest = subprocess.Popen(
                (*self._first, *command), cwd=folder, env=environment, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            return self._newest

    def ended(self) -> bool:
        """If `end` was called."""
        return self._ended

    def end(self) -> None:
        """Kill what runs, and let nothing start any more: compilers must not outlive this process."""
        with self._lock:
            self._ended = True
            if self._newest and self._newest.poll() is None:
                with suppress(ProcessLookupError):  # it has ended in between
                    os.killpg(self._newest.pid, signal.SIGKILL)


def build_all(tools: Sequence[Tool], report: Report) -> list[Path]:
    """The binaries of these tools. While the first of them is built, the others are built beside it, one by one.

    Raises ToolError, as `build`.
    """
    with ThreadPoolExecutor(1) as pool:
        processes = _Processes(beside=True)
        others = pool.submit(lambda: [build(tool, report, processes) for tool in tools[1:]])
        try:
            return [*(build(tool, report) for tool in tools[:1]), *others.result()]
        except BaseException:
            processes.end()
            raise


def build(tool: Tool, report: Report | None = None, processes: _Processes | None = None) -> Path:
    """The binary of a tool, built if neither the cache nor, for Kubernetes, KUBEBUILDER_ASSETS has it.

    Args:
        tool: what is built.
        report: gets what is being built, and how far it is.
        processes: what starts the build's processes.

    Returns:
        The path of the binary; names of a multi-call binary are in the same folder.

    Raises:
        ToolError: no Go and no way to get it, too little disk space, or the build failed.
    """
    report, processes = report or Silent(), processes or _Processes()
    binary = cached(tool)
    if binary.exists():
        return binary
    if tool.name == ToolName.KUBERNETES and (found := assets.find(partial(module_version, tool), report)):
        return found
    folder = binary.parent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"another process is building {tool.name}: waiting for it"
        lock = folder.with_name(f".{folder.name}.lock")
        with exclusive(lock, lambda: report.note(waiting), cancelled=processes.ended):
            if not binary.exists():
                _build_into(tool, folder, report, processes)
    except OSError as error:
        raise ToolError(f"{tool.name} cannot be built below {folder.parent}: {error.strerror or error}") from error
    return binary


def _build_into(tool: Tool, folder: Path, report: Report, processes: _Processes) -> None:
    """Build beside `folder` and rename. Only the holder of the tool's lock gets here, so any older attempt is dead.

    The name is new each time: compilers that outlive a killed builder write into its folder, not into this one.
    """
    for left in folder.parent.glob(f".{folder.name}.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    _check_space(tool, folder.parent)
    go = golang.find(minimum_go(tool), report)
    _check_space(tool, go.cache())
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
    try:
        what = f"Building {tool.name} {module_version(tool)} (once; {tool.estimate} on two free cores)"
        with report.step(what) as update:
            _run_build(_GoCommand(tool, go, processes, update), fresh / tool.name)
        for link in tool.links:
            (fresh / link).symlink_to(tool.name)
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _check_space(tool: Tool, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < tool.space:
        raise ToolError(
            f"too little disk space to build {tool.name}: {free / _GIB:.1f} GiB are free in {folder}, "
            f"{tool.space / _GIB:.0f} GiB are needed. "
            "Make room, or set HOLDFAST_CACHE (and GOCACHE, GOMODCACHE) to a folder on a larger disk"
        )


@dataclass
class _GoCommand:
    """Runs `go` for a tool. `tail` has the last lines that it said; `update` gets the modules that it downloads."""

    tool: Tool
    go: golang.Go
    processes: _Processes
    update: Update
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))

    def run(self, *verb: str) -> Generator[str, None, None]:
        """The lines about packages, as they come. Raises ToolError if the command fails."""
        command = (str(self.go.command), *verb, *flags(self.tool), self.tool.package)
        process = self.processes.start(command, self.tool.sources, self.go.environment())
        try:
            for line in process.stdout or ():
                self.tail.append(line.rstrip())
                if line.startswith("go: downloading "):
                    self.update(f"downloading {line.split()[2]}")
                else:
                    yield line
            code = process.wait()
        finally:
            if process.poll() is None:  # interrupted: the compilers must not outlive this process
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()
        if code != 0:
            raise ToolError(_failure(self.tool, code, "\n".join(self.tail)))


def _run_build(go: _GoCommand, binary: Path) -> None:
    packages = sum(1 for _ in go.run("list", "-deps"))
    with closing(go.run("build", "-v", "-o", str(binary))) as started:
        for number, _ in enumerate(started, 1):  # fewer than all, if the compiler's cache has some already
            go.update(f"{number} of about {packages} packages compiled")
    if not binary.exists():
        tail = "\n".join(go.tail)
        raise ToolError(f"go build of {go.tool.name} ended without an error and without a binary:\n{tail}")


def _failure(tool: Tool, code: int, tail: str) -> str:
    if "no space left on device" in tail:
        hint = "the disk is full: make room, or set HOLDFAST_CACHE, GOCACHE and GOMODCACHE to folders on a larger disk"
    elif code < 0:
        hint = f"it was ended by signal {-code}: the memory may be too small (a build needs about 4 GiB)"
    else:
        hint = "the end of its output is below"
    return f"building {tool.name} failed (exit code {code}); {hint}\n{tail}"
