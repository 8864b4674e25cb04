"""`holdfast operator`: the operator process itself, and what goes before uninstalling it."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from holdfast.runtime import logs
from holdfast.runtime import operator as runtime
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ConfigurationError
from holdfast.runtime.housekeeping.uninstall import release_all
from holdfast.runtime.settings import Settings

app = typer.Typer(name="operator", no_args_is_help=True, help="Run the operator, or prepare its removal.")


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    flag, env = f"--{name.replace('_', '-')}", f"HOLDFAST_{name.upper()}"
    kind: Any = str if name in ("progress_bind", "health_bind", "log_level", "identity") else field.annotation
    default: Any = None if field.default_factory else field.default
    if name == "patience":
        kind, default = list[str], []
    elif default is None and kind is str:
        kind = str | None
    text = field.description or ""
    option = typer.Option(flag, envvar=env, help=f"{text[:1].upper()}{text[1:]}.")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each setting: flag, environment variable, default and help come from the model."""
    parameters = [_parameter(name, field) for name, field in Settings.model_fields.items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def settings_from(values: dict[str, Any]) -> Settings:
    """Settings from what was typed. Raises ConfigurationError, which names every option that is wrong."""
    given = {name: value for name, value in values.items() if value is not None}
    pairs = [pair.partition("=") for pair in given.pop("patience", ())]
    try:
        return Settings.model_validate({**given, "patience": {name: float(value) for name, _, value in pairs}})
    except ValidationError as error:
        lines = [f"--{'-'.join(map(str, e['loc'])).replace('_', '-')}: {e['msg']}" for e in error.errors()]
        raise ConfigurationError("; ".join(lines)) from error
    except ValueError as error:
        raise ConfigurationError(f"--patience: NAME=SECONDS is allowed; {error}") from error


@app.command()
@_with_settings
def run(**values: Any) -> None:
    """Run the operator until SIGTERM."""
    settings = settings_from(values)
    logs.configure(settings.log_level)
    raise typer.Exit(asyncio.run(runtime.run(settings)))


@app.command()
def release(
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig file. Else the pod's service account.")] = None,
) -> None:
    """Take Holdfast's finalizer off all pods, so that nothing hangs once the operator is uninstalled. Stop it first."""

    async def work() -> int:
        async with await Client.auto(kubeconfig) as client:
            return await release_all(client)

    typer.echo(f"released {asyncio.run(work())} pods")
