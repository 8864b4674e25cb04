"""`copy_library`: the library and what it needs, without torch, for a writer in an image that has none of it."""

import importlib.util
import shutil
import uuid
from pathlib import Path
from typing import Final

from holdfast_protocol import variables
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.pod.launcher.library import LIBRARY

MODULES: Final = (
    "holdfast_train",
    "holdfast_protocol",
    "awscrt",
    "_awscrt",
    "boto3",
    "botocore",
    "dateutil",
    "jmespath",
    "s3transfer",
    "six",
    "urllib3",
)
NOT_CALLED: Final = ("examples", "exchange", "frameworks")  # of the library: programs and commands
SERVICES: Final = ("s3", "sso", "sso-oidc", "sts")  # of botocore's data: S3, and ways to get a cloud identity


def copy_library(folder: str | Path) -> Path:
    """Copy the modules to `folder`/library, completely or not at all. EnvironmentVariableError if that fails."""
    target = Path(folder) / LIBRARY
    temporary = target.with_name(f".{LIBRARY}-{uuid.uuid4().hex}")
    try:
        temporary.mkdir()
        for name in MODULES:
            _copy(name, temporary)
        if target.exists():  # of an init container that was started again
            shutil.rmtree(target)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise EnvironmentVariableError(f"{variables.LAUNCHER_DIR}: cannot write {target}: {error.strerror}") from error
    return target


def _copy(name: str, folder: Path) -> None:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise EnvironmentVariableError(f"the image of the init container lacks the module {name}; use a whole image")
    source = Path(found.origin)
    # Not by found.submodule_search_locations: six, a single file, says once it is imported that it is a package.
    if source.name == "__init__.py":
        shutil.copytree(source.parent, folder / name, ignore=_left_out)
    else:
        shutil.copy2(source, folder / source.name)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What is not copied: compiled files of one Python, and modules and data of services that nothing here calls."""
    parts = Path(folder).parts
    left = {"__pycache__", *(NOT_CALLED if parts[-1:] == ("holdfast_train",) else ())}
    if parts[-2:] == ("botocore", "data"):
        left |= {n for n in names if (Path(folder) / n).is_dir() and n not in SERVICES}
    return left & {*names}
