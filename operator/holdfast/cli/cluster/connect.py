"""Connect a command to the cluster: kubeconfig, namespace, and errors that say what to do."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from holdfast.cli.errors import CliError, ExitCode
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError, ConfigurationError

IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LOCAL_HINT = 'for a cluster on this machine: holdfast local up, then eval "$(holdfast local env)"'


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster and a namespace as typed; None means what the kubeconfig says."""

    kubeconfig: Path | None = None
    namespace: str | None = None

    def resolved_namespace(self) -> str:
        """The namespace that was typed, otherwise the current context's, otherwise `default`."""
        if self.namespace:
            return self.namespace
        if self.kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST") and IN_CLUSTER_NAMESPACE.exists():
            return IN_CLUSTER_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
        return _context_namespace(self._files()) or "default"

    def source(self) -> str | None:
        """The kubeconfig files to read, as $KUBECONFIG writes them; None for the pod's own account.

        Raises CliError if no file exists: the client's own error does not help.
        """
        if self.kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return None
        files = self._files()
        if not any(file.is_file() for file in files):
            looked = ", ".join(str(file) for file in files)
            raise CliError(
                f"no cluster: there is no kubeconfig at {looked}", code=ExitCode.NO_CLUSTER, hint=_LOCAL_HINT
            )
        return os.pathsep.join(str(file) for file in files if file.is_file())

    def _files(self) -> list[Path]:
        if self.kubeconfig:
            return [self.kubeconfig]
        listed = os.environ.get("KUBECONFIG", "")
        files = [Path(part) for part in listed.split(os.pathsep) if part]
        return files or [Path.home() / ".kube" / "config"]


def _context_namespace(files: list[Path]) -> str | None:
    """The context's namespace. As in kubectl, the first current-context and the first context of that name count."""
    contents = [content for file in files if (content := _read(file))]
    current = next((name for content in contents if (name := content.get("current-context"))), None)
    for content in contents:
        for entry in content.get("contexts") or ():
            if isinstance(entry, dict) and entry.get("name") == current:
                namespace = (entry.get("context") or {}).get("namespace")
                return str(namespace) if namespace else None
    return None


def _read(file: Path) -> dict[str, Any]:
    """A kubeconfig, or {}: the client reports what is wrong with the file."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Client]:
    """A client for the target. Every error of the API or the kubeconfig inside becomes a CliError."""
    try:
        client = await Client.auto(target.source())
    except ConfigurationError as error:
        raise CliError(f"no cluster: {error}", code=ExitCode.NO_CLUSTER, hint=_LOCAL_HINT) from error
    async with client:
        with explained(client.host):
            yield client


@contextmanager
def explained(server: str) -> Iterator[None]:
    """Turn an ApiError into a CliError that says what to do."""
    try:
        yield
    except ApiError as error:
        raise explain(error, server) from error


def explain(error: ApiError, server: str) -> CliError:
    """The CliError for an answer of the API server."""
    match error.status:
        case 0:
            return CliError(
                f"no answer from the cluster at {server}: {error.message}",
                code=ExitCode.NO_CLUSTER,
                hint="check the kubeconfig, and that the cluster is up",
            )
        case 401:
            return CliError(
                f"the cluster at {server} does not know this user (401)",
                code=ExitCode.FORBIDDEN,
                hint="log in again, or give another --kubeconfig",
            )
        case 403:
            return CliError(
                f"not allowed: {error.message}",
                code=ExitCode.FORBIDDEN,
                hint="ask for the role holdfast-view (to look) or holdfast-edit (to act) in this namespace",
            )
        case 404 if "could not find the requested resource" in error.message or not error.message:
            return CliError(
                f"the cluster at {server} has no TrainingJobs: Holdfast is not installed there",
                code=ExitCode.NOT_FOUND,
                hint="helm install holdfast charts/holdfast --namespace holdfast-system --create-namespace",
            )
        case 404:
            return CliError(error.message, code=ExitCode.NOT_FOUND, hint="holdfast watch -A lists all jobs")
        case _:
            return CliError(f"the cluster refused: {error}")
