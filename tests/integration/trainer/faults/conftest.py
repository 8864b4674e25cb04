"""A storage that many kinds of trouble meet, and the same store without them."""

import uuid
from collections.abc import Iterator

import pytest
from tests.support.http.fault_proxy import FaultProxy, fault_proxy
from tests.support.http.s3_server import S3Server
from tests.support.trainer.troubled_store import PATIENCE, store

from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as found:
        yield found


@pytest.fixture
def prefix() -> str:
    return f"test/{uuid.uuid4().hex}"


@pytest.fixture
def storage(proxy: FaultProxy, prefix: str) -> S3Storage:
    """One that takes no store for silent that only runs on a busy machine."""
    return store(proxy.endpoint, prefix, read_seconds=20)


@pytest.fixture
def hasty(proxy: FaultProxy, prefix: str) -> S3Storage:
    """One that notices a silent store soon."""
    return store(proxy.endpoint, prefix)


@pytest.fixture
def patient(hasty: S3Storage) -> Iterator[RetryingStorage]:
    found = RetryingStorage(hasty, sleep=lambda _: None)
    with found.within(PATIENCE):
        yield found


@pytest.fixture
def plain(s3: S3Server, prefix: str) -> S3Storage:
    """The same store without anything in between: what is really there."""
    return store(s3.endpoint, prefix, read_seconds=20)
