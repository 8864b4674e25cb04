"""What files say of a run: holdfast.toml or [tool.holdfast] of the folder, and a file of the person."""

import os
import tomllib
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from holdfast.api.errors import shown
from holdfast.api.model import Model
from holdfast.api.problems import spec_error
from holdfast.api.storage import Storage
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.run.wanted import Wanted

AnyModel = TypeVar("AnyModel", bound=Model)
OF_FOLDER: Final = "holdfast.toml"
PROJECT: Final = "pyproject.toml"
MOST_BYTES: Final = 1 << 20


def of_folder(root: Path) -> Wanted:
    """What `holdfast.toml` in the folder says, otherwise [tool.holdfast] of its `pyproject.toml`. Raises CliError."""
    own, project = root / OF_FOLDER, _read(root / PROJECT)
    tool = (project or {}).get("tool")
    table = tool.get("holdfast") if isinstance(tool, dict) else None
    if (said := _read(own)) is not None:
        if table is not None:
            raise CliError(
                f"{own} and [tool.holdfast] in {root / PROJECT} are both there", code=ExitCode.USAGE, hint="keep one"
            )
        return known(said, str(own))
    return Wanted() if table is None else known(table, f"[tool.holdfast] in {root / PROJECT}")


def of_person() -> Wanted:
    """What the person's own file says, for all folders. Raises CliError."""
    place = file_of_person()
    said = _read(place)
    return Wanted() if said is None else known(said, str(place))


def file_of_person() -> Path:
    """Where it is: `holdfast/config.toml` in $XDG_CONFIG_HOME, otherwise in ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "holdfast" / "config.toml"


def storage_from(uri: str, endpoint: str | None, credentials: str | None) -> Storage:
    """The storage of `--storage s3://BUCKET/PREFIX` and the options beside it. CliError if the address is wrong."""
    bucket, _, prefix = uri.removeprefix("s3://").strip("/").partition("/")
    if not uri.startswith("s3://") or not prefix:
        raise CliError(
            f"--storage: {shown(uri)} must be s3://BUCKET/PREFIX", code=ExitCode.USAGE, hint="such as s3://runs/team-a"
        )
    s3: dict[str, Any] = {"bucket": bucket, "prefix": prefix}
    s3 |= {"endpoint": endpoint} if endpoint else {}
    s3 |= {"credentialsSecret": credentials} if credentials else {}
    return parsed(Storage, {"s3": s3}, "--storage")


def _read(path: Path) -> dict[str, Any] | None:
    """The tables of a file, None if there is none. Raises CliError."""
    try:
        with path.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise CliError(f"{path} has over {MOST_BYTES} bytes", code=ExitCode.USAGE)
    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise CliError(f"{path} cannot be read as TOML: {error}", code=ExitCode.USAGE) from error


def known(said: Any, where: str) -> Wanted:
    """What is said of a run by the names of the options. CliError if one of them is not known, or a value is wrong."""
    if not isinstance(said, dict):
        raise CliError(f"{where} is {shown(said)}; it must be a table", code=ExitCode.USAGE)
    names = {field.alias or name for name, field in Wanted.model_fields.items()}
    if unknown := sorted(said.keys() - names):
        raise CliError(
            f"{where}: {shown(unknown[0])} is not known",
            code=ExitCode.USAGE,
            hint=f"allowed: {', '.join(sorted(names))}",
        )
    return parsed(Wanted, said, where)


def parsed(model: type[AnyModel], said: dict[str, Any], where: str) -> AnyModel:
    """`said` as `model`. CliError names what is wrong in `where`."""
    try:
        return model.model_validate(said)
    except ValidationError as error:
        raise CliError(f"{where}: {spec_error(error)}", code=ExitCode.USAGE) from error
