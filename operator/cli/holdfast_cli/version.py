"""`holdfast version`."""

import asyncio
import platform
import sys
from importlib.metadata import PackageNotFoundError, metadata

from holdfast.api.names import API_VERSION
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.cluster.options import Kubeconfig
from holdfast_cli.errors import CliError
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import Output, write


def own_version() -> str:
    """The version of the installed distribution."""
    try:
        return metadata("holdfast")["Version"]
    except PackageNotFoundError:
        return "unknown (not installed)"


def version(*, output: Output = None, kubeconfig: Kubeconfig = None) -> None:
    """Show the versions of holdfast, of its API and of the cluster."""
    found = {
        "holdfast": own_version(),
        "API": API_VERSION,
        "Python": f"{platform.python_version()} on {sys.platform}",
        "Kubernetes": asyncio.run(server_version(Target(kubeconfig))),
    }
    if not write(output, {name.lower(): value for name, value in found.items()}):
        for name, value in found.items():
            console().print(f"{name:<12}{value}", markup=False)


async def server_version(target: Target) -> str:
    """The version of the cluster, or that none answers: this command works without a cluster."""
    try:
        async with connect(target) as client:
            return str((await client.request("GET", "/version", timeout=5.0)).get("gitVersion", "unknown"))
    except CliError as error:
        return f"none ({error})"
