"""A store on S3 behind a network that misbehaves as told, and every kind of trouble that one try outlives."""

import os
from typing import Any

import pytest
from tests.support.http.fault_proxy import Act

from holdfast_train.environment import Credentials
from holdfast_train.storage.checksums import CHUNK_BYTES
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server

PART = 2 * CHUNK_BYTES
SILENCE = 2.0  # seconds until a silent store is given up
DATA = memoryview(os.urandom(2 * PART + 4321))
SMALL = DATA[:70_000]
PATIENCE = 60.0

TROUBLE: list[tuple[Act, dict[str, Any]]] = [
    (Act.LOSE_REQUEST, {}),
    (Act.LOSE_ANSWER, {}),
    (Act.REFUSE, {}),
    (Act.REFUSE, {"status": 500, "code": "InternalError"}),
    (Act.REFUSE, {"status": 429, "code": "TooManyRequests"}),
    (Act.REFUSE, {"status": 409, "code": "ConditionalRequestConflict"}),
    (Act.REFUSE, {"status": 400, "code": "RequestTimeout"}),
    (Act.REFUSE_LATE, {}),
    (Act.REFUSE_LATE, {"status": 500, "code": "InternalError"}),
    (Act.RESET, {}),
    (Act.RESET_LATE, {}),
    (Act.HALF, {}),
    (Act.STALL, {}),
    (Act.SLOW, {}),
]
NAMES = [f"{act.name.lower()}-{more.get('status', '')}".rstrip("-") for act, more in TROUBLE]
troubled = pytest.mark.parametrize(("act", "more"), TROUBLE, ids=NAMES)


def store(endpoint: str, prefix: str, **more: Any) -> S3Storage:
    """One that gives up soon, and cuts what is larger than a chunk or two into parts."""
    server = S3Server(endpoint, credentials=more.pop("credentials", Credentials("access", "secret-key")))
    options = {"read_seconds": SILENCE, "connect_seconds": SILENCE, "part_bytes": PART, "parallel": 4}
    return S3Storage("runs", prefix, server, **{**options, **more})


def content(storage: S3Storage, key: str) -> bytes:
    """The bytes under a key; none if it is missing."""
    view = memoryview(bytearray(storage.size(key) or 0))
    storage.read_into(key, 0, view)
    return bytes(view)
