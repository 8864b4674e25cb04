"""What the commands of `holdfast checkpoints` share: the options that name the storage, opening it, and the answer."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import typer
from rich.console import Console

from holdfast.cli.checkpoints import screen
from holdfast.cli.checkpoints.options import AsJson, Endpoint, Place, Region
from holdfast.cli.checkpoints.storage_address import Found, Where, opened
from holdfast.cli.cluster.options import Kubeconfig, Namespace
from holdfast.cli.terminal.console import console
from holdfast_train.storage.base import Storage

_OPTIONS: Final = {
    "namespace": Namespace,
    "endpoint": Endpoint,
    "region": Region,
    "as_json": AsJson,
    "kubeconfig": Kubeconfig,
}


@dataclass(frozen=True, slots=True)
class Opened:
    """The storage that a command works on, and how to print the answer."""

    found: Found
    storage: Storage
    as_json: bool

    def answer(self, data: Mapping[str, Any], show: Callable[[Console], None]) -> None:
        """Print `data` with --json; otherwise let `show` print for people."""
        if self.as_json:
            typer.echo(json.dumps(data, indent=2))
        else:
            show(console())


def on_storage(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument PLACE and the shared options; its first parameter becomes the opened storage.

    Errors of the cluster and of the storage inside the command become CliErrors.
    """

    @wraps(command)
    def run(place: str, *, as_json: bool, **given: Any) -> None:
        where = Where(place, **{name: given.pop(name) for name in _OPTIONS if name != "as_json"})
        with opened(where) as (found, storage):
            screen.notes(found.notes)
            command(Opened(found, storage, as_json), **given)

    _, *own = inspect.signature(command).parameters.values()
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if kind is AsJson else None
        )
        for name, kind in _OPTIONS.items()
    ]
    parameters = [inspect.Parameter("place", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Place), *own, *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
