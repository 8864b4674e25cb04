"""A function of the user's program that a command is given as MODULE:FUNCTION."""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from holdfast_model.user_code import called
from holdfast_train.errors import StateError

if TYPE_CHECKING:
    from holdfast_model.package.problem import Problem


def user_function(option: str, place: str) -> Callable[..., object]:
    """The function at `place`, such as train:problem. StateError says what is wrong with the `option`.

    The module is imported as `python -m` does it: its top-level code runs.
    """
    module, separator, function = place.partition(":")
    if not separator or not _is_dotted(module) or not function.isidentifier():
        example = f"train:{option.lstrip('-')}"
        raise StateError(f"{option} {place!r} is not a function; allowed: MODULE:FUNCTION, as {example}")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
    imported = called(f"{option} {place}: the import of {module}", lambda: _imported(option, place, module))
    found: Callable[..., object] | None = getattr(imported, function, None)
    if not callable(found):
        raise StateError(f"{option} {place}: the module has no function {function!r}")
    return found


def _imported(option: str, place: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a module that the user's module imports
            raise
        raise StateError(f"{option} {place}: there is no module {error.name!r} here or on PYTHONPATH") from error


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def user_problem(place: str, arguments: Sequence[str]) -> "Problem":
    """What the function of `--problem` returns. StateError or ProblemError says what is wrong with it."""
    from holdfast_model.package.errors import ProblemError  # noqa: PLC0415
    from holdfast_model.package.problem import Problem  # noqa: PLC0415 - numpy is an extra

    function = user_function("--problem", place)
    problem = called(f"--problem {place}", lambda: function(*arguments))
    if not isinstance(problem, Problem):
        kind = type(problem).__name__
        raise ProblemError(f"--problem {place} returns a {kind}; it has to return a holdfast_model.package.Problem")
    return problem
