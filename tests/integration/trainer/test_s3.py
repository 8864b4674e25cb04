"""The storage protocol on a real S3 server."""

import base64
import contextlib
import io
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from awscrt import checksums
from tests.support.http.credential_server import credentials_server
from tests.support.http.s3_server import S3Server
from tests.support.trainer import stores
from tests.support.trainer.code import entries_of
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import identity

from holdfast_protocol.settings import Keep
from holdfast_train.code.store import fetch, send
from holdfast_train.code.tree import tree_hash
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Credentials, Identity
from holdfast_train.errors import (
    FencedError,
    KeyMissingError,
    StorageDeniedError,
    StorageNotFoundError,
    StoragePrefixInUseError,
    StorageUnreachableError,
)
from holdfast_train.pod.init_container import probe
from holdfast_train.storage.checksums import chunk_sums
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_download import Body


def store(s3: S3Server, prefix: str, **more: Any) -> S3Storage:
    keys = Credentials(s3.access_key, more.pop("secret", s3.secret_key))
    return S3Storage(more.pop("bucket", s3.bucket), prefix, replace(s3.reached, credentials=keys))


@pytest.fixture
def storage(s3: S3Server) -> S3Storage:
    return store(s3, f"test/{uuid.uuid4().hex}")


def test_round_trip(storage: S3Storage) -> None:
    assert storage.keys("") == []
    assert storage.put_if_absent("log/1", b"one")
    assert not storage.put_if_absent("log/1", b"two")
    storage.put("data/x", bytearray(b"abc"))
    assert (storage.get("log/1"), storage.size("data/x"), storage.size("data/y")) == (b"one", 3, None)
    assert storage.keys("") == ["data/x", "log/1"]
    assert storage.keys("log/", after="log/1") == []
    with pytest.raises(KeyMissingError):
        storage.get("nothing")
    storage.delete(["data/x", "data/x"])
    assert storage.keys("data/") == []


def test_more_keys_than_a_page(storage: S3Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: storage.put(f"log/{n:012d}.json", b"x"), range(1, 1051)))
    assert len(storage.keys("log/")) == 1050
    assert storage.keys("log/", after="log/000000001048.json") == [f"log/{n:012d}.json" for n in (1049, 1050)]


def test_probe(storage: S3Storage) -> None:
    probe(storage, identity())
    assert storage.keys("") == []


def test_wrong_key(s3: S3Server) -> None:
    with pytest.raises(StorageDeniedError, match="SignatureDoesNotMatch") as denied:
        probe(store(s3, "x", secret="wrong"), identity())
    assert "wrong" not in str(denied.value)


def test_missing_bucket(s3: S3Server) -> None:
    with pytest.raises(StorageNotFoundError, match="'missing-bucket' does not exist"):
        probe(store(s3, "x", bucket="missing-bucket"), identity())


def test_server_down(s3: S3Server, storage: S3Storage) -> None:
    s3.kill()
    with pytest.raises(StorageUnreachableError, match="cannot be reached"):
        storage.get("log/1")
    s3.start()
    with pytest.raises(KeyMissingError):
        storage.get("log/1")


def started(storage: S3Storage, who: Identity, resume: str = "Auto") -> Checkpoints:
    found = Checkpoints(storage, who, Keep(last=2))
    found.start(resume)
    return found


def test_zombie_is_fenced(storage: S3Storage) -> None:
    zombie = started(storage, identity(1))
    stores.save(zombie, 10, {"x": b"1"}, [None])
    successor = started(storage, identity(2))
    with pytest.raises(FencedError):
        stores.save(zombie, 20, {"x": b"2"}, [None])
    restored = restore_whole(successor)
    assert restored is not None
    assert (restored.step, restored.state) == (10, {"x": b"1"})


def test_two_jobs_on_one_prefix(storage: S3Storage) -> None:
    started(storage, identity(1))
    with pytest.raises(StoragePrefixInUseError):
        started(storage, identity(1, uid="u", job="other"))


def test_many_starts_at_once_have_one_order(storage: S3Storage) -> None:
    """The log is a compare-and-swap register on a real server too: no two records share a number."""

    def start(attempt: int) -> str:
        try:
            started(storage, identity(attempt))
        except FencedError:
            return "fenced"
        return "started"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(start, range(1, 13)))
    assert results[-1] == "started"
    assert len(storage.keys("log/")) == 1 + results.count("started")


def test_takeover(storage: S3Storage) -> None:
    stores.save(started(storage, identity(3)), 10, {}, [None])
    again = started(storage, identity(1, uid="uid-2"))
    restored = restore_whole(again)
    assert restored is not None
    assert restored.step == 10


def test_retention(storage: S3Storage) -> None:
    import numpy as np

    checkpoints = started(storage, identity(1))
    for step in range(1, 5):
        stores.save(checkpoints, step, {"x": np.arange(100)}, [None])
    assert [key.split("/")[1][:12] for key in storage.keys("data/")] == [f"{3:012d}", f"{4:012d}"]
    assert len(storage.keys("manifests/")) == 2


def test_keys_of_the_container_are_used_and_renewed(
    storage: S3Storage, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No keys are given: they come from boto3's chain, for data as for the log, and are fetched again when they end."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with credentials_server(s3.access_key, s3.secret_key) as server:
        server.seconds = 60  # so close to their end that each use fetches new ones
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url)
        prefix = storage.uri.removeprefix(f"s3://{s3.bucket}/")
        found = S3Storage(s3.bucket, prefix, replace(s3.reached, credentials=Credentials()))
        found.put("log/1", b"1")
        found.write("data/x", memoryview(b"abc"))
        before = server.asked
        found.write("data/y", memoryview(b"abc"))
        assert server.asked > before > 0
    assert storage.keys("") == ["data/x", "data/y", "log/1"]


def test_answers_are_read_straight_into_memory(storage: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new urllib3 that hides what it wraps would cost a copy of every byte, and this says so."""
    made: list[Body] = []

    class Seen(Body):
        def __init__(self, body: Any) -> None:
            super().__init__(body)
            made.append(self)

    monkeypatch.setattr("holdfast_train.storage.s3.Body", Seen)
    storage.write("data/x", memoryview(b"abc"))
    view = memoryview(bytearray(3))
    storage.read_into("data/x", 0, view)
    assert (bytes(view), [body.direct for body in made]) == (b"abc", [True])


def test_the_store_keeps_the_sum_of_the_whole(storage: S3Storage, s3: S3Server) -> None:
    """It compared it with the parts put together, and any S3 client can ask for it."""
    data = memoryview(os.urandom(40 << 20))
    storage.write("data/x", data, sums=chunk_sums(data))
    client: Any = s3.client()
    key = storage.uri.removeprefix(f"s3://{s3.bucket}/") + "/data/x"
    found = client.head_object(Bucket=s3.bucket, Key=key, ChecksumMode="ENABLED")
    assert found["ETag"].strip('"').endswith("-3")
    assert base64.b64decode(found["ChecksumCRC64NVME"]) == checksums.crc64nvme(data).to_bytes(8, "big")


@pytest.mark.parametrize("wanted", [10, 11])
def test_a_connection_is_used_again_only_after_a_whole_answer(wanted: int) -> None:
    """What is left of half an answer would be taken for the start of the next."""
    done: list[str] = []

    class Raw:
        def release_conn(self) -> None:
            done.append("used again")

    class Answer(io.BytesIO):
        _raw_stream = Raw()

        def close(self) -> None:
            done.append("closed")

    with contextlib.closing(Body(Answer(b"0123456789"))) as body:
        assert body.fill(memoryview(bytearray(wanted))) == 10
    assert done == (["used again"] if wanted == 10 else ["closed"])


# Breaks if a copy inside the server is another object, or if one that is not possible is not told.
def test_a_copy_inside_the_server(storage: S3Storage, s3: S3Server) -> None:
    storage.put("code/a", b"content")
    other = store(s3, f"test/{uuid.uuid4().hex}")
    assert other.copy_from(storage.uri, "code/a")
    assert other.get("code/a") == b"content"
    assert not other.copy_from(storage.uri, "code/b")
    assert not other.copy_from("s3://no-such-bucket/x", "code/a")


# Breaks if a large archive, which is sent in parts, is cut, or if its file stays open.
def test_a_large_archive(storage: S3Storage, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(40 << 20))
    (entry,) = entries_of(tmp_path)
    assert send(storage, tmp_path, [entry]) > 40 << 20
    (tmp_path / "back").mkdir()
    fetch(storage, tree_hash([entry]), tmp_path / "back")
    assert (tmp_path / "back/large").read_bytes() == (tmp_path / "large").read_bytes()
