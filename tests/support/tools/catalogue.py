"""Tools that only tests and benchmarks start. They are built and cached as those of a local cluster.

The folders beside this file are their Go modules; promtool is built from the module of the local cluster's Prometheus.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from holdfast_local.toolchain import TOOLS, Tool

_ours = partial(Tool, modules=Path(__file__).parent)
_ALERTMANAGER: Final = "github.com/prometheus/alertmanager"  # later versions than 0.31.1 need files that it lacks

HELM: Final = _ours(
    "helm", "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", stamp=("helm.sh/helm/v4/internal/version.version=%",)
)
PROMTOOL: Final = replace(
    TOOLS["prometheus"],
    name="promtool",
    package="github.com/prometheus/prometheus/cmd/promtool",
    folder="prometheus",
)
ALERTMANAGER: Final = _ours(
    "alertmanager",
    f"{_ALERTMANAGER}/cmd/alertmanager",
    _ALERTMANAGER,
    stamp=("github.com/prometheus/common/version.Version=%",),
)
PINT: Final = _ours(
    "pint", "github.com/cloudflare/pint/cmd/pint", "github.com/cloudflare/pint", stamp=("main.version=%",)
)
KWOK: Final = _ours(
    "kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", stamp=("sigs.k8s.io/kwok/pkg/consts.Version=%",)
)
JOBSET: Final = _ours(
    "jobset",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/jobset",
    stamp=("sigs.k8s.io/jobset/pkg/version.GitVersion=%",),
    estimate="about 3 minutes",
)
KUBELET: Final = _ours(
    "kubelet",
    ".",
    "k8s.io/kubernetes",
    stamp=TOOLS["kubernetes"].stamp,
    links=("kube-proxy",),
    space=4 * 1024**3,
    estimate="about 5 minutes",
)


def _of_containerd(name: str) -> Tool:
    module = "github.com/containerd/containerd/v2"
    return _ours(
        name,
        f"{module}/cmd/{name}",
        module,
        stamp=(f"{module}/version.Version=%",),
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
        folder="containerd",
    )


CONTAINERD: Final = _of_containerd("containerd")
SHIM: Final = _of_containerd("containerd-shim-runc-v2")
CTR: Final = _of_containerd("ctr")

COREDNS: Final = _ours(
    "coredns",
    ".",
    "github.com/coredns/coredns",
    stamp=("github.com/coredns/coredns/coremain.GitCommit=%",),
    estimate="about 2 minutes",
)

REAL_NODE: Final = (KUBELET, CONTAINERD, SHIM, CTR, COREDNS)
"""What a real node is made of, beside the packages of the distribution."""

BY_NAME: Final = {tool.name: tool for tool in (HELM, PROMTOOL, ALERTMANAGER, PINT, KWOK, JOBSET, *REAL_NODE)}
