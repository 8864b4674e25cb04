"""Where the local cluster keeps its files, and where the built tools are cached."""

import os
from dataclasses import dataclass
from pathlib import Path


def cache_dir() -> Path:
    """`$HOLDFAST_CACHE`, otherwise `$XDG_CACHE_HOME/holdfast`, otherwise `~/.cache/holdfast`."""
    if chosen := os.environ.get("HOLDFAST_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "holdfast"


def default_root() -> Path:
    """`$HOLDFAST_LOCAL_ROOT`, otherwise `$XDG_STATE_HOME/holdfast/local`, otherwise `~/.local/state/holdfast/local`."""
    if chosen := os.environ.get("HOLDFAST_LOCAL_ROOT"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state").absolute() / "holdfast" / "local"


@dataclass(frozen=True)
class Layout:
    """The files of one local cluster. Everything it writes lies below `root`."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held while a command changes the cluster."""
        return self.root / ".lock"

    @property
    def state(self) -> Path:
        """What was started: ports, processes, keys of S3."""
        return self.root / "cluster.json"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """One log file a part."""
        return self.root / "logs"

    @property
    def etcd(self) -> Path:
        """etcd's data."""
        return self.root / "etcd"

    @property
    def s3(self) -> Path:
        """The S3 server's buckets, as plain folders."""
        return self.root / "s3"

    @property
    def s3_metadata(self) -> Path:
        """Object metadata, where the file system has no extended attributes."""
        return self.root / "s3-metadata"

    @property
    def settings(self) -> Path:
        """Configuration files of the API server."""
        return self.root / "settings"

    @property
    def audit_log(self) -> Path:
        """One JSON line an API request."""
        return self.root / "audit" / "audit.log"

    @property
    def prometheus(self) -> Path:
        """Prometheus' settings, rules, addresses to scrape, and data."""
        return self.root / "prometheus"

    @property
    def bin(self) -> Path:
        """A folder for PATH: kubectl, and nothing that would hide a tool of the user."""
        return self.root / "bin"

    @property
    def kubeconfigs(self) -> Path:
        """Kubeconfigs of service accounts and of the control plane's own parts."""
        return self.root / "kubeconfigs"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig that may do everything."""
        return self.root / "admin.kubeconfig"

    @property
    def agent_socket(self) -> Path:
        """The node agent's control socket."""
        return self.root / "agent.sock"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of `name`, for example `kube-scheduler`."""
        return self.kubeconfigs / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """The log of one part."""
        return self.logs / f"{name}.log"
