"""Binaries of Kubernetes that the machine has already: the folder that KUBEBUILDER_ASSETS names, as for envtest.

Each binary is asked for its version. All of them are used, or none: the tool that is built instead is one program, and
most of it is in the controller manager, which envtest does not bring.
"""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast_local.progress_bar import Report

VARIABLE = "KUBEBUILDER_ASSETS"
_SECONDS = 30.0
_KUBERNETES = "k8s.io/kubernetes"


@dataclass(frozen=True)
class Binary:
    """One program: how it is asked for its version, what it says before it, and the module that pins the version."""

    name: str
    module: str = _KUBERNETES
    ask: tuple[str, ...] = ("--version",)
    says: str = "Kubernetes"


BINARIES = (
    Binary("etcd", "go.etcd.io/etcd/server/v3", says="etcd Version:"),
    Binary("kube-apiserver"),
    Binary("kube-controller-manager"),
    Binary("kube-scheduler"),
    Binary("kubectl", ask=("version", "--client"), says="Client Version:"),
)


def find(wanted: Callable[[str], str], report: Report) -> Path | None:
    """One of the binaries, if the folder has all of them in the versions that are `wanted` of their modules.

    None if the variable is not set, and, with a note of what is wrong, if they cannot be used.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).absolute()
    wrong = [text for binary in BINARIES if (text := _wrong(binary, folder / binary.name, wanted(binary.module)))]
    if wrong:
        report.note(f"{VARIABLE}={named} is not used: {', '.join(wrong)}")
        return None
    return folder / BINARIES[0].name


def _wrong(binary: Binary, file: Path, wanted: str) -> str:
    """Why the file is not the binary in the wanted version, such as `v3.6.8`; empty if it is."""
    if not file.exists():
        return f"it has no {binary.name}"
    try:
        done = subprocess.run(
            (file, *binary.ask), capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{binary.name} does not run ({error})"
    found = re.search(rf"^{binary.says} v?(\S+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        return f"{binary.name} does not say its version (exit code {done.returncode})"
    seen = f"v{found[1]}"
    return "" if seen == wanted else f"its {binary.name} is {seen}, and {wanted} is needed"
