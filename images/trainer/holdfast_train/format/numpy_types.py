"""The types of NumPy that a checkpoint may name."""

import importlib
from typing import Any

from holdfast_train.errors import StateError


def numpy_type(name: str) -> Any:
    """The type of NumPy with this name. StateError if NumPy has none, or if its values are addresses of Python objects:
    bytes of a checkpoint must not become addresses.
    """
    try:
        found: Any = importlib.import_module("numpy").dtype(name)
    except (TypeError, ValueError) as error:
        raise StateError(f"the checkpoint contains an array of type {name!r}, which NumPy does not know") from error
    if found.hasobject:
        raise StateError(f"the checkpoint contains an array of type {name!r}: Holdfast saves no Python objects")
    return found
