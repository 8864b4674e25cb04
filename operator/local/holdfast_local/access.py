"""kubectl, kubeconfigs of service accounts, and the installation of what the operator needs."""

import importlib
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.api import rbac
from holdfast_local.components import write_kubeconfig
from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout
from holdfast_local.processes import clean_environment

OPERATOR_NAMESPACE = "holdfast-system"
_FIELD_MANAGER = "holdfast-install"
_ESTABLISHED_SECONDS = 30.0
_NO_CONDITIONS = "conditions accessor error"
_PAUSE = 0.1  # seconds between two looks


def kubectl(layout: Layout, args: Sequence[str], stdin: str | None, timeout: float) -> str:
    """Run kubectl as administrator.

    Raises:
        LocalError: it failed or took longer than `timeout` seconds; with its standard error.
    """
    # The cache below the root, not in the home folder: nothing of the cluster is left when it is gone.
    cache = f"--cache-dir={layout.root / 'kubectl-cache'}"
    command = [str(layout.bin / "kubectl"), f"--kubeconfig={layout.admin_kubeconfig}", cache, *args]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False, env=clean_environment()
        )
    except subprocess.TimeoutExpired as error:
        raise LocalError(f"kubectl {' '.join(args)} took longer than {timeout:g} s") from error
    except OSError as error:
        raise LocalError(f"kubectl cannot be run: {error}") from error
    if done.returncode != 0:
        raise LocalError(f"kubectl {' '.join(args)} failed (exit code {done.returncode}): {done.stderr.strip()}")
    return done.stdout


def kubeconfig_for(layout: Layout, server: str, namespace: str, account: str, hours: int = 24) -> Path:
    """Write a kubeconfig with a token of a service account, valid for `hours`.

    Raises LocalError if the account does not exist.
    """
    arguments = ["create", "token", account, f"--namespace={namespace}", f"--duration={hours}h"]
    token = kubectl(layout, arguments, None, 30).strip()
    target = layout.kubeconfig(f"{namespace}.{account}")
    return write_kubeconfig(target, server, layout.pki / "ca.crt", {"token": token}, namespace)


def install(layout: Layout) -> None:
    """Apply the API definitions, the operator's namespace, its service account and its rights (server-side apply)."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
    definitions = _definitions()
    apply(layout, [namespace, *definitions, *rbac.manifests(OPERATOR_NAMESPACE)])
    if definitions:
        _wait_until_established(layout, [f"crd/{definition['metadata']['name']}" for definition in definitions])


def _wait_until_established(layout: Layout, crds: Sequence[str]) -> None:
    """Wait until the API server serves these definitions.

    kubectl fails at once, in place of waiting, if it looks before the API server has written any condition.
    """
    deadline = time.monotonic() + _ESTABLISHED_SECONDS
    while True:
        try:
            limit = f"--timeout={_ESTABLISHED_SECONDS:.0f}s"
            kubectl(layout, ["wait", "--for=condition=Established", limit, *crds], None, 2 * _ESTABLISHED_SECONDS)
        except LocalError as error:
            if _NO_CONDITIONS not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def apply(layout: Layout, manifests: Sequence[dict[str, Any]]) -> None:
    """Server-side apply. Raises LocalError with the API server's words."""
    text = "\n".join(map(json.dumps, manifests))  # kubectl reads it too, and it is written at once
    args = ["apply", "--server-side", "--force-conflicts", f"--field-manager={_FIELD_MANAGER}", "-f", "-"]
    kubectl(layout, args, text, 60)


def _definitions() -> list[dict[str, Any]]:
    # Imported late: the generator is heavy, and a cluster that only has nodes does not need it.
    module = importlib.import_module("holdfast.api.crds")
    manifests: list[dict[str, Any]] = module.manifests()
    return manifests
