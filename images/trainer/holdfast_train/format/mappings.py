"""The types of mappings that a checkpoint can contain, and their names in it."""

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast_train.errors import StateError

MAPPINGS: Final = (dict, OrderedDict, defaultdict, Counter)
FACTORIES: Final[Mapping[str, Any]] = {
    "None": None, "int": int, "float": float, "str": str, "list": list, "dict": dict, "set": set,
}  # fmt: skip


def type_of(value: Any, path: str) -> str:
    """The name of the type of a mapping: `dict`, `OrderedDict`, `Counter`, or a defaultdict as `defaultdict int`."""
    name = type(value).__name__
    if type(value) is not defaultdict:
        return name
    if (factory := next((n for n, one in FACTORIES.items() if one is value.default_factory), None)) is None:
        raise StateError(
            f"{path} is a defaultdict that makes its values with {value.default_factory!r}; allowed: "
            f"{', '.join(FACTORIES)}. Return a dict in state_dict()"
        )
    return f"{name} {factory}"


def metadata_of(value: Any, path: str) -> Any:
    """What torch keeps beside the state of a module (the attribute `_metadata`): the versions of its classes, which
    decide how they load it. StateError if JSON cannot contain it."""
    about = getattr(value, "_metadata", None)
    try:
        is_plain = json.loads(json.dumps(about)) == about
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    if not is_plain:
        raise StateError(f"{path} has an attribute _metadata that JSON cannot contain; remove it in state_dict()")
    return about


def mapping_of(kind: str, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """A mapping of the type with the name `kind`: see `type_of`. StateError if the name is unknown."""
    if kind == "dict":
        return dict(pairs)
    if kind == "OrderedDict":
        return OrderedDict(pairs)
    if kind == "Counter":
        return Counter(dict(pairs))
    name, _, factory = kind.partition(" ")
    if name != "defaultdict" or factory not in FACTORIES:
        raise StateError(f"the checkpoint contains a mapping of type {kind!r}; a newer holdfast-train has written it")
    return defaultdict(FACTORIES[factory], pairs)
