"""A storage behind a network and a store that misbehave: exact bytes, or the right error."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.http.fault_proxy import Act, FaultProxy
from tests.support.http.s3_server import S3Server
from tests.support.trainer.troubled_store import DATA, PART, SMALL, content, troubled

from holdfast_train.errors import (
    CheckpointCorruptError,
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageNotAtomicError,
    StorageUnreachableError,
)
from holdfast_train.format.manifest import Part, check_chunks
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage


@troubled
def test_data_in_parts_arrives_exactly(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, act: Act, more: dict[str, Any]
) -> None:
    """The trouble meets the begin of an upload, one of its parts, or its end."""
    for number, step in enumerate(("POST .*uploads", "PUT .*partNumber=2", "POST .*uploadId=")):
        method, _, target = step.partition(" ")
        rule = proxy.add(act, method, f"data/{number}{target}", **more)
        patient.write(f"data/{number}", DATA, sums=chunk_sums(DATA))
        assert rule.met == 1, step
        assert content(plain, f"data/{number}") == DATA, step


@troubled
def test_small_data_arrives_exactly(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, act: Act, more: dict[str, Any]
) -> None:
    rule = proxy.add(act, "PUT", **more)
    patient.write("data/x", SMALL)
    assert rule.met == 1
    assert content(plain, "data/x") == SMALL


@troubled
def test_data_is_read_exactly(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, act: Act, more: dict[str, Any]
) -> None:
    plain.write("data/x", DATA)
    rule = proxy.add(act, "GET", "data/x", **more)
    view = memoryview(bytearray(PART))
    patient.read_into("data/x", 1000, view)
    assert rule.met == 1
    assert view == DATA[1000 : 1000 + PART]


def test_a_body_that_is_reset_in_the_middle_is_read_again(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage
) -> None:
    plain.write("data/x", DATA)
    rule = proxy.add(Act.HALF_RESET, "GET", "data/x", times=2)
    view = memoryview(bytearray(len(DATA)))
    patient.read_into("data/x", 0, view)
    assert rule.met == 2
    assert view == DATA


@troubled
def test_lists_are_whole(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, act: Act, more: dict[str, Any]
) -> None:
    plain.put("log/1", b"1")
    plain.put("log/2", b"22")
    rule = proxy.add(act, "GET", "list-type", **more)
    assert [(entry.key, entry.size) for entry in patient.entries("log/")] == [("log/1", 1), ("log/2", 2)]
    assert rule.met == 1


# One try


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        ((403, "AccessDenied"), StorageDeniedError),
        ((404, "NoSuchBucket"), StorageError),
        ((507, "InsufficientStorage"), StorageFullError),
        ((501, "NotImplemented"), StorageError),
        ((412, "PreconditionFailed"), StorageError),
        ((503, "SlowDown"), StorageUnreachableError),
        ((400, "ExpiredToken"), StorageUnreachableError),
    ],
)
def test_what_a_refusal_of_data_becomes(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage, refusal: tuple[int, str], error: type[StorageError]
) -> None:
    """The error has the words of a small write. It speaks of create-only writes only if the caller asked for one."""
    proxy.add(Act.REFUSE, "PUT", status=refusal[0], code=refusal[1], times=1000)
    with pytest.raises(error) as found:
        storage.write("data/x", DATA)
    assert not isinstance(found.value, StorageNotAtomicError)
    assert isinstance(found.value, StorageUnreachableError) == (error is StorageUnreachableError)
    assert "secret" not in str(found.value)
    assert plain.size("data/x") is None


def test_a_key_that_is_missing_is_missing_at_once(patient: RetryingStorage, proxy: FaultProxy) -> None:
    with pytest.raises(KeyMissingError):
        patient.read_into("data/x", 0, memoryview(bytearray(1)))
    assert proxy.count("GET") == 1


def test_a_part_that_a_busy_store_refuses_is_sent_again_alone(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage
) -> None:
    """One 503 must not cost gigabytes that have arrived. A silent store is left to the caller's patience."""
    rule = proxy.add(Act.REFUSE, "PUT", "partNumber=2", times=2)
    storage.write("data/x", DATA)
    assert (rule.met, proxy.count("PUT", "partNumber=2"), proxy.count("PUT", "partNumber=1")) == (2, 3, 1)
    assert content(plain, "data/x") == DATA


def test_a_silent_store_is_noticed_once(proxy: FaultProxy, hasty: S3Storage) -> None:
    """The part is not sent again: each further try would make a rank that has to leave wait as long once more."""
    rule = proxy.add(Act.LOSE_REQUEST, "PUT", "partNumber", times=1000)
    with pytest.raises(StorageUnreachableError, match="cannot be reached"):
        hasty.write("data/x", DATA)
    assert rule.met <= 3
    assert proxy.count("PUT") == rule.met


def test_the_first_error_is_the_one_that_is_told(proxy: FaultProxy, storage: S3Storage) -> None:
    """Other parts are stopped by it; how they ended is no news."""
    proxy.add(Act.REFUSE, "PUT", "partNumber=3", status=403, code="AccessDenied", times=1000)
    with pytest.raises(StorageDeniedError, match="refuses UploadPart"):
        storage.write("data/x", DATA)


def test_a_failed_upload_leaves_nothing_behind(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage, s3: S3Server
) -> None:
    proxy.add(Act.REFUSE, "PUT", status=403, code="AccessDenied", times=3)
    with pytest.raises(StorageDeniedError):
        storage.write("data/x", DATA)
    assert proxy.count("DELETE", "uploadId") == 1
    assert plain.drop_unfinished("", datetime.now(UTC) + timedelta(days=1)) == 0


def test_uploads_of_a_silent_time_are_given_back_with_the_next_one(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage
) -> None:
    rule = proxy.add(Act.LOSE_REQUEST, "POST", "uploadId", times=2)
    patient.write("data/x", DATA)
    assert rule.met == proxy.count("DELETE", "uploadId") == 2
    assert plain.drop_unfinished("", datetime.now(UTC) + timedelta(days=1)) == 0


def test_uploads_of_the_dead_are_dropped_by_age(proxy: FaultProxy, hasty: S3Storage, plain: S3Storage) -> None:
    proxy.add(Act.LOSE_REQUEST, "POST", "uploadId", times=1)
    with pytest.raises(StorageUnreachableError):
        hasty.write("data/x", DATA)
    now = datetime.now(UTC)
    assert plain.drop_unfinished("data/", now - timedelta(hours=1)) == 0
    assert plain.drop_unfinished("other/", now + timedelta(hours=1)) == 0
    assert plain.drop_unfinished("data/", now + timedelta(hours=1)) == 1
    assert plain.drop_unfinished("data/", now + timedelta(hours=1)) == 0


# Damage


@pytest.mark.parametrize("data", [SMALL, DATA], ids=["one", "parts"])
def test_bytes_damaged_on_the_way_are_refused_and_sent_again(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage, data: memoryview
) -> None:
    rule = proxy.add(Act.DAMAGE_REQUEST, "PUT", times=2)
    storage.write("data/x", data)
    assert rule.met == 2
    assert content(plain, "data/x") == data


def test_a_network_that_always_damages_is_an_error(proxy: FaultProxy, storage: S3Storage, plain: S3Storage) -> None:
    proxy.add(Act.DAMAGE_REQUEST, "PUT", "partNumber=2", times=1000)
    with pytest.raises(StorageUnreachableError, match="BadDigest"):
        storage.write("data/x", DATA)
    assert plain.size("data/x") is None


def test_memory_that_changed_after_its_sums_were_taken_is_found(storage: S3Storage, plain: S3Storage) -> None:
    """The store compares with the manifest's sums, so such a checkpoint never gets as far as a commit."""
    sums, changed = chunk_sums(DATA), bytearray(DATA)
    changed[PART + 5] ^= 1
    with pytest.raises(CheckpointCorruptError, match="data/x"):
        storage.write("data/x", memoryview(changed), sums=sums)
    assert plain.size("data/x") is None


def test_an_answer_damaged_on_the_way_is_found_by_the_sums(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage
) -> None:
    """`read_into` hands over what came; that a checkpoint's bytes are checked is the manifest's part."""
    plain.write("data/x", DATA)
    proxy.add(Act.DAMAGE_ANSWER, "GET", "data/x")
    view = memoryview(bytearray(len(DATA)))
    storage.read_into("data/x", 0, view)
    with pytest.raises(CheckpointCorruptError, match="chunk 2"):
        check_chunks(Part("data/x", len(DATA), CHUNK_BYTES, chunk_sums(DATA)), 0, view)


@pytest.mark.parametrize("how", ["silent", "refuses"])
def test_a_store_without_crc64_gets_md5(
    proxy: FaultProxy, storage: S3Storage, plain: S3Storage, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    if how == "silent":
        proxy.add(Act.HIDE_HEADER, "PUT", header="x-amz-checksum-crc64nvme", times=1000)
    else:
        proxy.add(Act.REFUSE, "POST", "uploads", status=501, code="NotImplemented")
    for key in ("data/x", "data/y"):
        storage.write(key, DATA)
        assert content(plain, key) == DATA
    assert capsys.readouterr().err.count("does not check CRC-64/NVME") == 1
    sent = [r for r in proxy.requests if r.method == "PUT" and "data/y" in r.target]
    assert len(sent) == 3
    assert all(b"content-md5" in r.head.lower() and b"x-amz-checksum" not in r.head.lower() for r in sent)
    damaged = proxy.add(Act.DAMAGE_REQUEST, "PUT", "data/z")
    storage.write("data/z", DATA)
    assert damaged.met == 0 if how == "silent" else damaged.met == 1
    assert content(plain, "data/z") == DATA
