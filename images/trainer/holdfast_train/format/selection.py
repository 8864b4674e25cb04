"""Parts of the state in a checkpoint, by dotted names: `model`, `model.layers.0.`, `optimizer.state`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from holdfast_train.errors import StateError

Only: TypeAlias = "str | Sequence[str] | None"
SHOWN: Final = 12  # names that an error lists


def select(objects: Mapping[str, Any], only: Only) -> dict[str, Any]:
    """The part of `objects` (nested mappings) at or below the names of `only`; all of it if `only` is None.

    Names are keys joined by dots, or by slashes as in `holdfast checkpoints show`. A name matches whole keys:
    `model.layers.1` does not match `model.layers.10`. Lists, tuples and columns are taken whole. StateError, with the
    existing names, if nothing has a name.
    """
    if only is None:
        return dict(objects)
    wanted = [only] if isinstance(only, str) else list(only)
    for name in wanted:
        if not any(is_within(path, name) for path, _ in dotted(objects)):
            raise StateError(f"there is nothing at {name!r}; {_near(objects, name)}")
    found = _below(objects, "", wanted)
    assert isinstance(found, dict)
    return found


def at(objects: Mapping[str, Any], name: str) -> Any:
    """The value with the dotted name `name`. StateError, with the existing names, if there is none."""
    for path, value in dotted(objects):
        if path == name:
            return value
    raise StateError(f"there is nothing at {name!r}; {_near(objects, name)}")


def dotted(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All values in nested mappings, also the mappings, with their dotted names."""
    if path:
        yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from dotted(item, f"{path}.{key}" if path else str(key))


def is_within(path: str, name: str) -> bool:
    """True if the dotted name `path` is `name` or below it."""
    path, name = _plain(path), _plain(name)
    return path == name or path.startswith(f"{name}.")


def _plain(name: str) -> str:
    return name.replace("/", ".").rstrip(".")


def _below(value: Mapping[str, Any], path: str, wanted: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        here = f"{path}.{key}" if path else str(key)
        if any(is_within(here, name) for name in wanted):
            found[key] = item
        elif isinstance(item, Mapping) and (inside := _below(item, here, wanted)):
            found[key] = inside
    return found


def _near(objects: Mapping[str, Any], name: str) -> str:
    """The names below the longest beginning of `name` that exists."""
    parts = _plain(name).split(".")
    paths = [path for path, _ in dotted(objects)]
    for length in range(len(parts) - 1, -1, -1):
        start = ".".join(parts[:length])
        dot = f"{start}." if start else ""
        below = dict.fromkeys(dot + path[len(dot) :].split(".")[0] for path in paths if path.startswith(dot))
        if below:
            more = len(below) - SHOWN
            there = ", ".join(list(below)[:SHOWN]) + (f" and {more} more" if more > 0 else "")
            return f"below {start!r} there is {there}" if start else f"there is {there}"
    return "there is nothing at all"
