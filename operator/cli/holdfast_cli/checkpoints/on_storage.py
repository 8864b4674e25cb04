"""What the commands of `holdfast checkpoints` share: the options that name the storage, opening it, and the answer."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from rich.console import Console

from holdfast_cli.checkpoints import screen
from holdfast_cli.checkpoints.options import Place
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.storage.address import Found, Where, opened
from holdfast_cli.storage.options import Addressing, Ca, Endpoint, Proxy, Region
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.output import ListFormat, Output, is_for_programs, write
from holdfast_train.storage.retrying import RetryingStorage

_OPTIONS: Final = {
    "namespace": Namespace,
    "endpoint": Endpoint,
    "region": Region,
    "ca": Ca,
    "proxy": Proxy,
    "addressing": Addressing,
    "kubeconfig": Kubeconfig,
}


@dataclass(frozen=True, slots=True)
class Opened:
    """The storage that a command works on, and how to print the answer."""

    found: Found
    storage: RetryingStorage
    output: ListFormat | None

    @property
    def is_for_programs(self) -> bool:
        """True if only the answer may be on standard output."""
        return is_for_programs(self.output)

    def answer(self, data: Mapping[str, Any], show: Callable[[Console], None], names: Sequence[str] = ()) -> None:
        """Print `data` or `names` as -o asks for; otherwise let `show` print for people."""
        if not write(self.output, data, names):
            show(console(wide=self.output == "wide"))


def on_storage(command: Callable[..., None], output: Any = Output) -> Callable[..., None]:
    """Give a command the argument PLACE and the shared options; its first parameter becomes the opened storage.

    `output` is the type of its option -o.
    Errors of the cluster and of the storage inside the command become CliErrors.
    """

    @wraps(command)
    def run(place: str, *, output: ListFormat | None, **given: Any) -> None:
        where = Where(place, **{name: given.pop(name) for name in _OPTIONS})
        with opened(where) as (found, storage):
            screen.notes(found.notes)
            command(Opened(found, storage, output), **given)

    _, *own = inspect.signature(command).parameters.values()
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
        for name, kind in {**_OPTIONS, "output": output}.items()
    ]
    parameters = [inspect.Parameter("place", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Place), *own, *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
