"""A function of Python as the command of a job."""

import builtins
import inspect
import math
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from holdfast_cli.errors import CliError, ExitCode

MOST_CHARACTERS: Final = 4096  # of one word of trainer.command
_HERE: Final = "__main__"  # a notebook, or the program that runs


def command_of_function(function: Callable[..., Any], arguments: Sequence[object], folder: Path) -> list[str]:
    """The command that calls `function(*arguments)` in a pod, which has the files of `folder`.

    A function of a module in the folder is imported. One of a notebook is sent as its source, with what it imports.
    CliError names what cannot be sent.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function) or function.__qualname__ != name or not name.isidentifier():
        raise _refusal(name, "is not a function at the top level of a module or a notebook")
    code = _source(function) if function.__module__ == _HERE else _import(function, folder)
    program = f"{code}\n{name}({', '.join(map(_literal, arguments))})"
    if "$(" in program or "$$" in program:
        raise _refusal(name, "has $( or $$ in its source, which Kubernetes would change in a command")
    if len(program) > MOST_CHARACTERS:
        raise _refusal(
            name, f"has {len(program):,} characters with its imports; at most {MOST_CHARACTERS:,} can be sent"
        )
    return ["python3", "-c", program]


def _literal(argument: object) -> str:
    if argument is not None and not isinstance(argument, str | int | float):
        raise CliError(
            f"the argument {argument!r} is a {type(argument).__name__}; allowed: text, numbers, True, False and None",
            code=ExitCode.USAGE,
        )
    # Classes of other libraries, such as float64 of NumPy, are numbers and texts too, and have a repr of their own.
    for plain in (float, int, str):
        if isinstance(argument, plain) and not isinstance(argument, bool):
            argument = plain(argument)
    is_finite = not isinstance(argument, float) or math.isfinite(argument)
    return repr(argument) if is_finite else f"float({str(argument)!r})"


def _import(function: Callable[..., Any], folder: Path) -> str:
    """The import of a function of a module in the folder."""
    module = function.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(file or "").resolve()
    if file is None or not path.is_relative_to(folder.resolve()):
        raise _refusal(function.__name__, f"is of the module {module}, which is not in {folder}")
    parts = path.relative_to(folder.resolve()).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    above = parts[: len(parts) - len(module.split("."))]
    lines = [f"import sys; sys.path.insert(0, {'/'.join(above)!r})"] if above else []
    return "\n".join([*lines, f"from {module} import {function.__name__}"])


def _source(function: Callable[..., Any]) -> str:
    """The sources of a function and of the notebook's functions that it uses, after imports of what they use."""
    imports: dict[str, str] = {}
    sources: list[str] = []
    _gather(function, imports, sources, {function.__name__})
    return "\n".join([*imports.values(), *sources])


def _gather(function: Callable[..., Any], imports: dict[str, str], sources: list[str], seen: set[str]) -> None:
    """Add to `imports`, by name, and to `sources` what a function uses, then its own source. Raises CliError.

    `seen`: the functions that are in `sources`, or will be.
    """
    name = function.__name__
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise _refusal(name, "has no source that can be read") from error
    known = function.__globals__
    missing = []
    for one in sorted(set(_names(symtable.symtable(source, name, "exec")))):
        if one in seen:
            continue
        if one in known and _is_of_notebook(one, known[one]):
            seen.add(one)
            _gather(known[one], imports, sources, seen)
        elif one in known and (line := _import_of(one, known[one])):
            imports[one] = line
        elif one in known or not hasattr(builtins, one):
            missing.append(one)
    if missing:
        raise _refusal(name, f"uses {', '.join(missing)}, which cannot be sent with it")
    sources.append(source)


def _is_of_notebook(name: str, value: object) -> bool:
    """True if the value is a function that a cell defines under this name."""
    return inspect.isfunction(value) and value.__module__ == _HERE and value.__qualname__ == name


def _names(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a source takes from outside."""
    for symbol in table.get_symbols():
        is_outside = symbol.is_global() if table.get_type() != "module" else not symbol.is_assigned()
        if symbol.is_referenced() and is_outside:
            yield symbol.get_name()
    for child in table.get_children():
        yield from _names(child)


def _import_of(name: str, value: object) -> str | None:
    """The line that imports a value under this name; None if it is of the notebook itself."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module in (None, _HERE) or not isinstance(own, str) or getattr(sys.modules.get(module), own, None) is not value:
        return None
    return f"from {module} import {own} as {name}"


def _refusal(name: str, why: str) -> CliError:
    return CliError(
        f"{name} {why}",
        code=ExitCode.USAGE,
        hint="put it into a file of the folder, such as train.py, and give the function of that module, or train.py",
    )
