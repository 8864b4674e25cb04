"""The local cluster for `holdfast run --local`, which another distribution brings."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from holdfast_cli.errors import CliError

GROUP: Final = "holdfast.local"
NAME: Final = "cluster"


def bring_up(say: Callable[[str], object]) -> Path:
    """Start the local cluster, with Holdfast in it, unless it is up. Its kubeconfig. `say`: is told how far it is.

    CliError if it is not installed.
    """
    for found in entry_points(group=GROUP, name=NAME):
        path: Path = found.load()(say)
        return path
    raise CliError("the local cluster is not installed", hint="pip install 'holdfast[local]'")
