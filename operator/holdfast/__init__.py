"""Holdfast: a Kubernetes operator that keeps GPU training jobs alive.

`from holdfast import Client` is the way from a person's own program to trainings. It needs the distribution
holdfast-cli, which is imported at the first use: the operator runs without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.api.errors import HoldfastError
    from holdfast.api.status import Phase
    from holdfast_cli.client.checkpoint import Checkpoint
    from holdfast_cli.client.client import Client
    from holdfast_cli.client.errors import JobFailedError, JobGoneError, WaitTimeoutError
    from holdfast_cli.client.job import Job

__all__ = [
    "Checkpoint",
    "Client",
    "HoldfastError",
    "Job",
    "JobFailedError",
    "JobGoneError",
    "Phase",
    "WaitTimeoutError",
]

_PLACES: Final = {
    "Checkpoint": "holdfast_cli.client.checkpoint",
    "Client": "holdfast_cli.client.client",
    "HoldfastError": "holdfast.api.errors",
    "Job": "holdfast_cli.client.job",
    "JobFailedError": "holdfast_cli.client.errors",
    "JobGoneError": "holdfast_cli.client.errors",
    "Phase": "holdfast.api.status",
    "WaitTimeoutError": "holdfast_cli.client.errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use. ImportError if holdfast-cli is not installed."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(_PLACES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "holdfast_cli":
            raise
        raise ImportError(f"holdfast.{name} needs the command line: pip install holdfast-cli", name=name) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names too, for completion."""
    return sorted({*globals(), *__all__})
