"""JSON that carries its own hash, so that a reader can check that it is unchanged."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.codec import encoded


def canonical(body: object) -> bytes:
    """`body` as JSON with sorted keys and without blanks: equal content gives equal bytes.

    Dataclasses in it are encoded by the codec. ValueError for a NaN, TypeError for a value that JSON does not have.
    """
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False, default=encoded).encode()


def decoded_json(data: str | bytes) -> Any:
    """The value of JSON that anybody may have written. ValueError if it is not JSON, or nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def sealed(body: Mapping[str, Any]) -> bytes:
    """Canonical JSON of `body` with the field `sha256`: the hash of the same JSON without that field."""
    return canonical({**body, "sha256": hashlib.sha256(canonical(body)).hexdigest()})


def unsealed(data: bytes) -> dict[str, Any]:
    """The body in `data`. CheckpointCorruptError if its hash is wrong; ValueError, KeyError, TypeError or
    AttributeError if `data` is not sealed JSON."""
    body: dict[str, Any] = decoded_json(data)
    found = body.pop("sha256")
    try:
        wanted = hashlib.sha256(canonical(body)).hexdigest()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if found != wanted:
        raise CheckpointCorruptError(f"its hash is {wanted[:12]}, but it states {str(found)[:12]}")
    return body
