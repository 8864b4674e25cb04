"""JSON that carries its own hash, so that a reader knows whether it is what was written."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from holdfast_train.errors import CheckpointCorruptError

__all__ = ["canonical", "sealed", "unsealed"]


def canonical(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON with sorted keys and without blanks: the same bytes for the same content.

    Dataclasses in it become objects of their fields. ValueError for a NaN, TypeError for what JSON does not have.
    """
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_fields).encode()


def sealed(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON of `body` with `sha256` over the same without that field."""
    return canonical({**body, "sha256": hashlib.sha256(canonical(body)).hexdigest()})


def unsealed(data: bytes) -> dict[str, Any]:
    """The body in `data`. CheckpointCorruptError if its hash does not hold; ValueError, KeyError, TypeError and
    AttributeError if `data` is nothing of the kind."""
    body: dict[str, Any] = json.loads(data)
    found = body.pop("sha256")
    wanted = hashlib.sha256(canonical(body)).hexdigest()
    if found != wanted:
        raise CheckpointCorruptError(f"its hash is {wanted[:12]}, but it says {str(found)[:12]}")
    return body


def _fields(value: object) -> dict[str, Any]:
    """As dataclasses.asdict, which copies all that it finds: that takes more time than the JSON of a large manifest."""
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"JSON has no {type(value).__name__}")
    return vars(value)
