"""`holdfast operator`: the same commands and options as `holdfast-operator`, which needs no extra."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.runtime import command
from holdfast.runtime.housekeeping.uninstall import DEADLINE
from holdfast.runtime.settings import DEFAULT_NAMESPACE

app = typer.Typer(name="operator", no_args_is_help=True, help=command.ABOUT)


def _parameter(option: command.Option) -> inspect.Parameter:
    given = typer.Option(option.flag, envvar=option.variable, help=option.help, metavar=option.metavar)
    kind: Any = list[str] if option.is_repeatable else option.kind | None if option.default is None else option.kind
    default = [] if option.is_repeatable else option.default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, given]
    )


def _with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each setting."""
    parameters = [_parameter(option) for option in command.options()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return function


@app.command(help=command.ABOUT_RUN)
@_with_settings
def run(**values: Any) -> None:
    """Run the operator with what was typed."""
    raise typer.Exit(command.run(command.settings_from(values)))


@app.command(help=command.ABOUT_RELEASE)
def release(
    kubeconfig: Annotated[Path | None, typer.Option(help=command.ABOUT_KUBECONFIG)] = None,
    namespace: Annotated[str, typer.Option(help=command.ABOUT_NAMESPACE, envvar=command.NAMESPACE)] = DEFAULT_NAMESPACE,
    deadline: Annotated[float, typer.Option(help=command.ABOUT_DEADLINE, envvar=command.RELEASE_DEADLINE)] = DEADLINE,
) -> None:
    """Print how many pods were released."""
    typer.echo(command.release(kubeconfig, namespace, deadline))
