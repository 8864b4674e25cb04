"""The operator's image in the local cluster: `python -m tests.support.operator.operator_image run`, or `release`.

A process of the local cluster has neither files at a fixed path nor a network of its own. So the service account is
passed on as a kubeconfig, and the operator listens on its pod's address instead of on all addresses. Everything else
is the pod's: command, settings, rights, probes, signals.
"""

import json
import os
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.request import Request, urlopen

from tests.support.waiting import wait_for

from holdfast_local.agent.config import ImageSpec
from holdfast_local.agent.container.container import ACCOUNT_VARIABLE

BINDS = ("HOLDFAST_PROGRESS_BIND", "HOLDFAST_HEALTH_BIND", "HOLDFAST_METRICS_BIND")


def image(folder: Path) -> ImageSpec:
    """What stands for the image; `folder` gets the program that the entry point names."""
    root = Path(__file__).parents[3]
    program = folder / "holdfast-operator"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {__spec__.name} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {"PYTHONPATH": f"{root / 'operator'}:{root}"}
    return ImageSpec(path=(str(folder),), entrypoint=(program.name,), env=environment)


def kubeconfig(account: Path, server: str) -> dict[str, object]:
    """A kubeconfig of the pod's service account. The token is read from its file again when it has been renewed."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(account / "ca.crt")}}],
        "users": [{"name": "u", "user": {"tokenFile": str(account / "token")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }


def pod_address(account: Path, server: str, name: str) -> str:
    """The address of this pod, once the node agent has reported it."""
    context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    namespace, token = ((account / part).read_text() for part in ("namespace", "token"))
    request = Request(
        f"{server}/api/v1/namespaces/{namespace}/pods/{name}", headers={"Authorization": f"Bearer {token}"}
    )

    def reported() -> str:
        with urlopen(request, timeout=10, context=context) as answer:
            return str(json.load(answer)["status"].get("podIP") or "")

    return wait_for(reported, 60, "the address of this pod")


def bound_to(address: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The binds of the environment, on this address."""
    return {name: f"{address}{environment[name]}" for name in BINDS if environment.get(name, "").startswith(":")}


def main() -> None:
    """Become the operator."""
    account = Path(os.environ[ACCOUNT_VARIABLE])
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    file = Path(os.environ["TMPDIR"]) / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(account, server)), encoding="utf-8")
    environment = dict(os.environ)
    if any(name in environment for name in BINDS):
        environment |= bound_to(pod_address(account, server, environment["HOSTNAME"]), environment)
    command = [sys.executable, "-m", "holdfast.runtime", *sys.argv[1:], "--kubeconfig", str(file)]
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
