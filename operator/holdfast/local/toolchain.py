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
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from holdfast.local import golang
from holdfast.local.errors import ToolError
from holdfast.local.layout import cache_dir
from holdfast.local.locking import exclusive
from holdfast.local.progress_bar import Report, Silent, Update

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
        estimate: how long a cold build takes on 2 cores, for people.
        folder: of the module, for a tool that shares its module with another one.
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

    @property
    def sources(self) -> Path:
        """The folder of the tool's go.mod and go.sum."""
        return MODULES / (self.folder or self.name)


_VERSION = "k8s.io/component-base/version"
_PROMETHEUS = "github.com/prometheus/prometheus"
_ALERTMANAGER = "github.com/prometheus/alertmanager"  # later versions than 0.31.1 need files that their module lacks


def _of_prometheus(name: str) -> Tool:
    """One of the two programs of Prometheus' repository: they share the module here, and most of what is compiled."""
    return Tool(
        name,
        f"{_PROMETHEUS}/cmd/{name}",
        _PROMETHEUS,
        stamp=("github.com/prometheus/common/version.Version=%",),
        # Without the clients of clouds, which find targets: they are most of the build.
        tags=("remove_all_sd", "enable_kubernetes_sd"),
        space=3 * _GIB,
        estimate="about 3 minutes",
        folder="prometheus",
    )


class ToolName(StrEnum):
    """Keys of TOOLS."""

    KUBERNETES = "kubernetes"
    VERSITYGW = "versitygw"
    KWOK = "kwok"
    JOBSET = "jobset"
    HELM = "helm"
    PROMTOOL = "promtool"
    PROMETHEUS = "prometheus"
    ALERTMANAGER = "alertmanager"
    PINT = "pint"


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
        Tool("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", stamp=("sigs.k8s.io/kwok/pkg/consts.Version=%",)),
        Tool(
            "jobset",
            "sigs.k8s.io/jobset",
            "sigs.k8s.io/jobset",
            stamp=("sigs.k8s.io/jobset/pkg/version.GitVersion=%",),
            estimate="about 3 minutes",
        ),
        Tool(
            "helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", stamp=("helm.sh/helm/v4/internal/version.version=%",)
        ),
        _of_prometheus("promtool"),
        _of_prometheus("prometheus"),
        Tool(
            "alertmanager",
            f"{_ALERTMANAGER}/cmd/alertmanager",
            _ALERTMANAGER,
            stamp=("github.com/prometheus/common/version.Version=%",),
        ),
        Tool("pint", "github.com/cloudflare/pint/cmd/pint", "github.com/cloudflare/pint", stamp=("main.version=%",)),
    )
}


def module_version(tool: Tool) -> str:
    """The version of the tool, for example `v1.36.3`, from its go.mod."""
    found = re.search(rf"^\s*{re.escape(tool.module)} (v\S+)", (tool.sources / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise ToolError(
            f"tools/{tool.sources.name}/go.mod does not require {tool.module}: "
            "the installation is damaged, reinstall holdfast"
        )
    return found[1]


def minimum_go(tool: Tool) -> golang.Version:
    """The Go version that the tool's go.mod asks for."""
    found = re.search(r"^go (\S+)", (tool.sources / "go.mod").read_text(), re.MULTILINE)
    version = golang.parse_version(f"go{found[1]}") if found else None
    if not version:
        raise ToolError(
            f"tools/{tool.sources.name}/go.mod names no Go version: the installation is damaged, reinstall holdfast"
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


def build(name: str, report: Report | None = None) -> Path:
    """The binary of a tool, built if it is not in the cache yet.

    Args:
        name: a key of TOOLS.
        report: gets what is being built, and how far it is.

    Returns:
        The path of the binary; names of a multi-call binary are in the same folder.

    Raises:
        ToolError: no Go and no way to get it, too little disk space, or the build failed.
    """
    report = report or Silent()
    if name not in TOOLS:
        raise ToolError(f"unknown tool {name!r}: known tools are {', '.join(TOOLS)}")
    tool = TOOLS[name]
    binary = cached(tool)
    if binary.exists():
        return binary
    folder = binary.parent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        waiting = f"another process is building {name}: waiting for it"
        with exclusive(folder.with_name(f".{folder.name}.lock"), lambda: report.note(waiting)):
            if not binary.exists():
                _build_into(tool, folder, report)
    except OSError as error:
        raise ToolError(f"{name} cannot be built below {folder.parent}: {error.strerror or error}") from error
    return binary


def _build_into(tool: Tool, folder: Path, report: Report) -> None:
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
        with report.step(f"Building {tool.name} {module_version(tool)} (once; {tool.estimate} from nothing)") as update:
            _run_build(tool, go, fresh / tool.name, update)
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


def _run_build(tool: Tool, go: golang.Go, binary: Path, update: Update) -> None:
    command = [str(go.command), "build", "-v", *flags(tool), "-o", str(binary), tool.package]
    tail: deque[str] = deque(maxlen=_TAIL)
    packages = 0
    process = subprocess.Popen(
        command, cwd=tool.sources, env=go.environment(), text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            if line.startswith("go: downloading "):
                update(f"downloading {line.split()[2]}")
            else:
                packages += 1
                update(f"{packages} packages compiled")
        code = process.wait()
    finally:
        if process.poll() is None:  # interrupted: the compilers must not outlive this process
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout:
            process.stdout.close()
    if code != 0:
        raise ToolError(_failure(tool, code, "\n".join(tail)))
    if not binary.exists():
        raise ToolError(f"go build of {tool.name} ended without an error and without a binary:\n" + "\n".join(tail))


def _failure(tool: Tool, code: int, tail: str) -> str:
    if "no space left on device" in tail:
        hint = "the disk is full: make room, or set HOLDFAST_CACHE, GOCACHE and GOMODCACHE to folders on a larger disk"
    elif code < 0:
        hint = f"it was ended by signal {-code}: the memory may be too small (a build needs about 4 GiB)"
    else:
        hint = "the end of its output is below"
    return f"building {tool.name} failed (exit code {code}); {hint}\n{tail}"
