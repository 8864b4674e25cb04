"""The command line and the settings of every part of the local cluster."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from holdfast_local.config import ClusterConfig
from holdfast_local.layout import Layout
from holdfast_local.pki import KeyFiles, Pki
from holdfast_local.ports import HOST
from holdfast_local.processes import ProcessRecord, clean_environment
from holdfast_local.state import ClusterState

_ISSUER = "https://kubernetes.default.svc"
_SERVICE_NETWORK = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"
_SERVER_NAMES = (HOST, "localhost", "kubernetes.default.svc", "kubernetes.default", _SERVICE_ADDRESS)
_MASTERS = "system:masters"

# Writes carry their request object, so that a test can see what was written; secrets and tokens never do.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "resources": [
                {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
            ],
        },
        {"level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "Metadata"},
    ],
}


def write_pki(state: ClusterState) -> None:
    """Make the certificate authority, every certificate, and the kubeconfigs that use them."""
    layout = Layout(state.config.root)
    pki = Pki(layout.pki)
    nodes = [node.address for node in state.network.nodes.values()] if state.network else []
    pki.issue("etcd", "etcd", hosts=(HOST, "localhost"))
    pki.issue("etcd-client", "kube-apiserver-etcd-client")
    pki.issue("kube-apiserver", "kube-apiserver", hosts=tuple(dict.fromkeys((*_SERVER_NAMES, state.address))))
    pki.issue("kubelet-client", "kube-apiserver-kubelet-client", _MASTERS)
    pki.issue("agent", "holdfast-node-agent", hosts=(HOST, "localhost", *nodes))
    pki.issue("agent-client", "holdfast-node-agent", _MASTERS)
    pki.signing_key("service-accounts")
    layout.kubeconfigs.mkdir(mode=0o700)
    users = (
        ("admin", "holdfast-admin", _MASTERS, layout.admin_kubeconfig),
        ("controller-manager", "system:kube-controller-manager", "", layout.kubeconfig("kube-controller-manager")),
        ("scheduler", "system:kube-scheduler", "", layout.kubeconfig("kube-scheduler")),
    )
    for name, user, group, path in users:
        files = pki.issue(name, user, group)
        write_kubeconfig(path, state.server, pki.cert, certificate_user(files))


def certificate_user(files: KeyFiles) -> dict[str, str]:
    """The user of a kubeconfig that logs in by certificate."""
    return {"client-certificate": str(files.cert), "client-key": str(files.key)}


def write_kubeconfig(path: Path, server: str, ca: Path, user: dict[str, str], namespace: str = "default") -> Path:
    """Write a kubeconfig, readable by its owner only. It names the CA's path and does not contain the CA."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "holdfast-local", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [
            {
                "name": "holdfast-local",
                "context": {"cluster": "holdfast-local", "user": "user", "namespace": namespace},
            }
        ],
        "current-context": "holdfast-local",
    }
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    fresh.replace(path)
    return path


def write_settings(layout: Layout, config: ClusterConfig) -> None:
    """Write the API server's audit policy and admission settings."""
    layout.settings.mkdir(mode=0o700)
    layout.audit_log.parent.mkdir(mode=0o700)
    (layout.settings / "audit.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
    level = config.pod_security
    pod_security = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": level, "enforce-version": "latest"},
        "exemptions": {"usernames": [], "runtimeClasses": [], "namespaces": ["kube-system"]},
    }
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": pod_security}],
    }
    (layout.settings / "admission.yaml").write_text(yaml.safe_dump(admission), encoding="utf-8")


def etcd(state: ClusterState) -> ProcessRecord:
    """etcd, with client certificates: on loopback alone every local user could read every secret."""
    pki, ports = Layout(state.config.root).pki, state.ports
    client, peer = f"https://{HOST}:{ports['etcd']}", f"https://{HOST}:{ports['etcd-peer']}"
    args: dict[str, Any] = {
        "name": "local",
        "data-dir": Layout(state.config.root).etcd,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"local={peer}",
        "log-level": "warn",
    }
    for prefix in ("", "peer-"):
        args |= {
            f"{prefix}cert-file": pki / "etcd.crt",
            f"{prefix}key-file": pki / "etcd.key",
            f"{prefix}trusted-ca-file": pki / "ca.crt",
        }
    return _part(state, "etcd", args, ["--client-cert-auth", "--peer-client-cert-auth", "--unsafe-no-fsync"])


def apiserver(state: ClusterState) -> ProcessRecord:
    """kube-apiserver with RBAC on."""
    layout, timings = Layout(state.config.root), state.config.timings
    pki = layout.pki
    args: dict[str, Any] = {
        "etcd-servers": f"https://{HOST}:{state.ports['etcd']}",
        "etcd-cafile": pki / "ca.crt",
        "etcd-certfile": pki / "etcd-client.crt",
        "etcd-keyfile": pki / "etcd-client.key",
        "bind-address": state.address,
        "advertise-address": state.address,
        "secure-port": state.ports["kube-apiserver"],
        "endpoint-reconciler-type": "none",
        "tls-cert-file": pki / "kube-apiserver.crt",
        "tls-private-key-file": pki / "kube-apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "authorization-mode": "Node,RBAC",
        "kubelet-certificate-authority": pki / "ca.crt",
        "kubelet-client-certificate": pki / "kubelet-client.crt",
        "kubelet-client-key": pki / "kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": _ISSUER,
        "service-account-key-file": pki / "service-accounts.pub",
        "service-account-signing-key-file": pki / "service-accounts.key",
        "service-cluster-ip-range": _SERVICE_NETWORK,
        "admission-control-config-file": layout.settings / "admission.yaml",
        "default-not-ready-toleration-seconds": timings.not_ready_toleration,
        "default-unreachable-toleration-seconds": timings.not_ready_toleration,
        "allow-privileged": "true",
    }
    if state.config.audit:
        args |= {
            "audit-policy-file": layout.settings / "audit.yaml",
            "audit-log-path": layout.audit_log,
            "audit-log-mode": "blocking",  # a request is answered only after its line is written: nothing is missing
            "audit-log-maxsize": 1_000_000,  # MB: never rotated
        }
    return _part(state, "kube-apiserver", args)


def controller_manager(state: ClusterState) -> ProcessRecord:
    """kube-controller-manager; each controller under its own service account, as in a real cluster."""
    layout, timings = Layout(state.config.root), state.config.timings
    args: dict[str, Any] = {
        "kubeconfig": layout.kubeconfig("kube-controller-manager"),
        "bind-address": HOST,
        "secure-port": state.ports["kube-controller-manager"],
        "root-ca-file": layout.pki / "ca.crt",
        "service-account-private-key-file": layout.pki / "service-accounts.key",
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        # Each controller's service account is made at the start; at the default 20 requests a second that takes 5 s.
        "kube-api-qps": 200,
        "kube-api-burst": 400,
        "node-monitor-period": f"{timings.node_monitor_period:g}s",
        "node-monitor-grace-period": f"{timings.node_grace:g}s",
        "node-startup-grace-period": f"{max(timings.node_grace, 10):g}s",
    }
    return _part(state, "kube-controller-manager", args)


def scheduler(state: ClusterState) -> ProcessRecord:
    """kube-scheduler."""
    args: dict[str, Any] = {
        "kubeconfig": Layout(state.config.root).kubeconfig("kube-scheduler"),
        "bind-address": HOST,
        "secure-port": state.ports["kube-scheduler"],
        "leader-elect": "false",
    }
    return _part(state, "kube-scheduler", args)


def s3(state: ClusterState) -> ProcessRecord:
    """versitygw over a plain folder. Makes the folder."""
    if state.s3 is None:
        raise ValueError("the configuration has no S3 server")
    layout = Layout(state.config.root)
    layout.s3.mkdir(mode=0o700, exist_ok=True)
    posix = ["posix"]
    if not _has_attributes(layout.s3):
        layout.s3_metadata.mkdir(mode=0o700, exist_ok=True)
        posix += ["--sidecar", str(layout.s3_metadata)]
    address = f"{state.address}:{state.ports['s3']}"
    argv = [str(state.tools["versitygw"]), "--port", address, "--health", "/healthz", "--region", state.s3.region]
    # Keys go by the environment: command lines are visible to every user of the machine.
    keys = {"ROOT_ACCESS_KEY": state.s3.access_key, "ROOT_SECRET_KEY": state.s3.secret_key}
    argv += [*state.config.extra_args.get("s3", []), "--quiet", *posix, str(layout.s3)]
    return ProcessRecord(name="s3", argv=argv, env=clean_environment(keys), log=layout.log("s3"))


def agent(state: ClusterState) -> ProcessRecord:
    """The node agent. It inherits the user's environment; what its pods get of it is its own decision.

    `-P`: a module of the working directory, such as a `queue.py`, does not hide one of Python.
    """
    layout = Layout(state.config.root)
    argv = [sys.executable, "-P", "-m", "holdfast_local.agent", "--root", str(layout.root)]
    return ProcessRecord(name="agent", argv=argv, log=layout.log("agent"))


def _part(state: ClusterState, name: str, args: dict[str, Any], switches: list[str] | None = None) -> ProcessRecord:
    layout = Layout(state.config.root)
    argv = [str(state.tools["kubernetes"].with_name(name)), *(f"--{key}={value}" for key, value in args.items())]
    argv += [*(switches or []), *state.config.extra_args.get(name, [])]
    return ProcessRecord(name=name, argv=argv, env=clean_environment(), log=layout.log(name))


def _has_attributes(folder: Path) -> bool:
    """Whether the file system keeps user attributes, in which the S3 server stores object metadata."""
    if not hasattr(os, "setxattr"):
        return sys.platform == "darwin"
    try:
        os.setxattr(folder, "user.holdfast-probe", b"1")
        os.removexattr(folder, "user.holdfast-probe")
    except OSError as error:
        if error.errno in {errno.ENOTSUP, errno.EPERM, errno.EACCES}:
            return False
        raise
    return True
