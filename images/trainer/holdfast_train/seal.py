"""JSON that carries its own hash, so that a reader knows whether it is what was written."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import CheckpointCorruptError

__all__ = ["canonical", "sealed", "unsealed"]


def canonical(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON with sorted keys and without blanks: the same bytes for the same content. ValueError for a NaN."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


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
