"""Objects that a program gives beside those that an adapter saves by itself."""

from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import StateError


def with_own(own: Mapping[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """`own`, what the adapter saves, and `given`, what the program adds. StateError if both have a name."""
    for name in own.keys() & (given or {}).keys():
        raise StateError(f"{name!r} is the name of an object that is saved in any case: choose another name")
    return {**own, **(given or {})}
