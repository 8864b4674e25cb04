"""Where the local cluster keeps its files."""

import os
from pathlib import Path


def default_root() -> Path:
    """`$HOLDFAST_LOCAL_ROOT`, otherwise `$XDG_STATE_HOME/holdfast/local`, otherwise `~/.local/state/holdfast/local`."""
    if chosen := os.environ.get("HOLDFAST_LOCAL_ROOT"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state").absolute() / "holdfast" / "local"


class Layout:
    """The files of one local cluster. Everything it writes lies below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / ".lock"  # taken while a command changes the cluster
        self.state = root / "cluster.json"  # what was started: ports, processes, keys of S3
        self.pki = root / "pki"  # keys and certificates
        self.logs = root / "logs"  # one log file a part
        self.etcd = root / "etcd"  # etcd's data
        self.s3 = root / "s3"  # the S3 server's buckets, as plain folders
        self.s3_metadata = root / "s3-metadata"  # object metadata, where the file system has no extended attributes
        self.settings = root / "settings"  # configuration files of the API server
        self.audit_log = root / "audit" / "audit.log"  # one JSON line an API request
        self.prometheus = root / "prometheus"  # Prometheus' settings, rules, addresses to scrape, and data
        self.bin = root / "bin"  # a folder for PATH: kubectl, and nothing that would hide a tool of the user
        self.kubeconfigs = root / "kubeconfigs"  # kubeconfigs of service accounts and of the control plane's own parts
        self.admin_kubeconfig = root / "admin.kubeconfig"  # the kubeconfig that may do everything
        self.agent_socket = root / "agent.sock"  # the node agent's control socket

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of `name`, for example `kube-scheduler`."""
        return self.kubeconfigs / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """The log of one part."""
        return self.logs / f"{name}.log"
