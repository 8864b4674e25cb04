"""Connect a command to the cluster: kubeconfig, namespace, and errors that say what to do."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.names import PROFILE_PLURAL
from holdfast.runtime.apiserver import kubeconfig
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError, NoClusterError
from holdfast_cli.errors import CliError

PATIENCE = 3.0  # seconds for which a list that the server refuses is asked for again: a person waits
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
        return _context_namespace(kubeconfig.candidates(self.kubeconfig)) or "default"


def _context_namespace(files: list[Path]) -> str | None:
    """The context's namespace. As in kubectl, the first current-context and the first context of that name count.

    A file that cannot be read has none: `connect` reports what is wrong with it.
    """
    contents = []
    for file in files:
        with suppress(NoClusterError):
            contents.append(kubeconfig.read(file))
    current = next((name for content in contents if (name := content.get("current-context"))), None)
    for content in contents:
        for entry in content.get("contexts") or ():
            if isinstance(entry, dict) and entry.get("name") == current:
                namespace = (entry.get("context") or {}).get("namespace")
                return str(namespace) if namespace else None
    return None


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Client]:
    """A client for the target. Every error of the API or the kubeconfig inside becomes a CliError."""
    try:
        client = await Client.auto(target.kubeconfig)
        client.page_patience = PATIENCE
    except NoClusterError as error:
        raise CliError(f"no cluster: {error}", code=error.exit_code, hint=_LOCAL_HINT) from error
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


def _listing(missing: str) -> str:
    """What shows the names of objects, by the API server's words for one that is missing: KIND.GROUP "NAME" ..."""
    kind = missing.split(" ", 1)[0]
    return f"kubectl get {kind} lists them" if kind.startswith(PROFILE_PLURAL) else "holdfast watch -A lists all jobs"


def explain(error: ApiError, server: str) -> CliError:
    """The CliError for an answer of the API server."""
    match error.status:
        case 0:
            return CliError(
                f"no answer from the cluster at {server}: {error.message}",
                code=error.exit_code,
                hint="check the kubeconfig, and that the cluster is up",
            )
        case 401:
            return CliError(
                f"the cluster at {server} does not know this user (401)",
                code=error.exit_code,
                hint="log in again, or give another --kubeconfig",
            )
        case 403:
            return CliError(
                f"not allowed: {error.message}",
                code=error.exit_code,
                hint="ask for the role holdfast-view (to look) or holdfast-edit (to act) in this namespace",
            )
        case 404 if "could not find the requested resource" in error.message or not error.message:
            return CliError(
                f"the cluster at {server} has no TrainingJobs: Holdfast is not installed there",
                code=error.exit_code,
                hint="helm install holdfast charts/holdfast --namespace holdfast-system --create-namespace",
            )
        case 404:
            return CliError(error.message, code=error.exit_code, hint=_listing(error.message))
        case _:
            return CliError(f"the cluster refused: {error}")
