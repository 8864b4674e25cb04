"""A storage and the commit log behind a network and a store that misbehave: exact bytes, or the right error."""

import json
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3.session
import pytest
from tests.integration.trainer.conftest import S3Server
from tests.support.http.fault_proxy import Act, FaultProxy, fault_proxy
from tests.support.trainer.stores import identity
from tests.support.waiting import wait_for

from holdfast_train.commitlog import records as log
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Credentials
from holdfast_train.errors import (
    CheckpointCorruptError,
    FencedError,
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageNotAtomicError,
    StorageUnreachableError,
)
from holdfast_train.format import names
from holdfast_train.format.manifest import Part, check_chunks
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage

PART = 2 * CHUNK_BYTES
SILENCE = 1.0  # seconds until a silent store is given up
DATA = memoryview(os.urandom(2 * PART + 4321))
SMALL = DATA[:70_000]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def session() -> boto3.session.Session:
    return boto3.session.Session()


@pytest.fixture(autouse=True)
def one_session(session: boto3.session.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """All storages share a session: a new one reads files for a tenth of a second."""
    monkeypatch.setattr("holdfast_train.storage.s3.boto3.session.Session", lambda: session)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3.endpoint) as found:
        yield found


@pytest.fixture
def prefix() -> str:
    return f"test/{uuid.uuid4().hex}"


def store(where: S3Server | FaultProxy, prefix: str, **more: Any) -> S3Storage:
    options = {"credentials": Credentials("access", "secret-key"), "read_seconds": SILENCE, "connect_seconds": SILENCE}
    return S3Storage(
        "runs", prefix, endpoint=where.endpoint, region=None, part_bytes=PART, parallel=4, **{**options, **more}
    )


@pytest.fixture
def storage(proxy: FaultProxy, prefix: str) -> S3Storage:
    return store(proxy, prefix)


@pytest.fixture
def patient(storage: S3Storage) -> Iterator[RetryingStorage]:
    found = RetryingStorage(storage, sleep=lambda _: None)
    with found.within(PATIENCE):
        yield found


@pytest.fixture
def plain(s3: S3Server, prefix: str) -> S3Storage:
    """The same store without anything in between: what is really there."""
    return store(s3, prefix, read_seconds=20)


def content(storage: S3Storage, key: str) -> bytes:
    view = memoryview(bytearray(storage.size(key) or 0))
    storage.read_into(key, 0, view)
    return bytes(view)


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
    """The same words as for small things; nobody is told of create-only writes who asked for none."""
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


def test_a_silent_store_is_noticed_once(proxy: FaultProxy, storage: S3Storage) -> None:
    """No try of a part is made after it: that would multiply the wait of one who has to leave."""
    rule = proxy.add(Act.LOSE_REQUEST, "PUT", "partNumber", times=1000)
    with pytest.raises(StorageUnreachableError, match="cannot be reached"):
        storage.write("data/x", DATA)
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


def test_uploads_of_the_dead_are_dropped_by_age(proxy: FaultProxy, storage: S3Storage, plain: S3Storage) -> None:
    proxy.add(Act.LOSE_REQUEST, "POST", "uploadId", times=1)
    with pytest.raises(StorageUnreachableError):
        storage.write("data/x", DATA)
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


# The log


def started(storage: RetryingStorage, attempt: int) -> CommitLog:
    found = CommitLog(storage, identity(attempt))
    found.own("Auto")
    found.raise_fence()
    return found


def commit(step: int, attempt: int = 1) -> log.Commit:
    return log.Commit(0, step, attempt, "2026-01-01T00:00:00+00:00", CheckpointName(step, 1, "0"), "00", 1)


def records(plain: S3Storage) -> list[tuple[str, int, int | None]]:
    """Kind, attempt and step of every record, which must be a chain: each follows from the one before it."""
    state, found = log.LogState(), []
    for number, key in enumerate(plain.keys("log/"), 1):
        record, after = log.decode(plain.get(key), number)
        state = log.apply(state, record)
        assert state == after
        found.append((record.kind, record.identity.attempt, record.commit.step if record.commit else None))
    return found


@troubled
def test_a_commit_is_written_once(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, act: Act, more: dict[str, Any]
) -> None:
    """Whether its write took effect before the trouble or not: its own record is known by the nonce."""
    found = started(patient, 1)
    rule = proxy.add(act, "PUT", "log/", **more)
    record = found.commit(commit(10), log.Keep())
    assert rule.met == 1
    found.complete(10)
    assert records(plain) == [("owner", 1, None), ("fence", 1, None), ("commit", 1, 10), ("complete", 1, None)]
    assert json.loads(plain.get(names.log_key(3)))["nonce"] == record.nonce


@pytest.mark.parametrize("late", [True, False])
def test_412_for_a_write_that_may_have_been_ours(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, late: bool
) -> None:
    """A store that tries again by itself says 412 of a write that it made; or it says so while one is in flight."""
    found = started(patient, 1)
    act = Act.REFUSE_LATE if late else Act.REFUSE
    rule = proxy.add(act, "PUT", "log/", status=412, code="PreconditionFailed")
    found.commit(commit(10), log.Keep())
    assert rule.met == 1
    assert records(plain)[2:] == [("commit", 1, 10)]


def test_the_winner_of_a_lost_answer_is_found_out(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, s3: S3Server, prefix: str
) -> None:
    """Our request is lost, and a newer attempt takes the number meanwhile: its record stands, and we are fenced."""
    zombie = started(patient, 1)
    proxy.add(Act.LOSE_REQUEST, "PUT", "log/")
    taken = []

    def take(_seconds: float) -> None:
        if not taken:
            taken.append(started(RetryingStorage(store(s3, prefix)), 2))

    patient._sleep = take
    with pytest.raises(FencedError, match="attempt 2"):
        zombie.commit(commit(10), log.Keep())
    assert records(plain) == [("owner", 1, None), ("fence", 1, None), ("fence", 2, None)]


def test_a_commit_whose_answer_is_held_while_the_next_attempt_starts(
    proxy: FaultProxy, plain: S3Storage, s3: S3Server, prefix: str
) -> None:
    """Answers overtake each other: the commit came first, so it stands, and its writer learns of it late."""
    zombie = started(RetryingStorage(store(proxy, prefix, read_seconds=30)), 1)
    rule = proxy.add(Act.HOLD, "PUT", "log/")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(zombie.commit, commit(10), log.Keep())
        wait_for(lambda: plain.size(names.log_key(3)) is not None, 30, "the commit to take effect")
        successor = started(RetryingStorage(plain), 2)
        assert [c.step for c in successor.state.commits] == [10]
        proxy.release(rule)
        assert late.result(30).seq == 3
    with pytest.raises(FencedError):
        zombie.commit(commit(20), log.Keep())
    assert records(plain)[2:] == [("commit", 1, 10), ("fence", 2, None)]


def test_a_stale_list_costs_a_try_and_nothing_else(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, s3: S3Server, prefix: str
) -> None:
    """A start that is shown an old list, or an empty one, cannot overwrite what it does not see."""
    reader = CommitLog(patient, identity(1))
    assert reader.refresh().seq == 0  # the list that is shown again later
    started(RetryingStorage(plain), 1).commit(commit(10), log.Keep())
    rule = proxy.add(Act.STALE, "GET", "list-type", times=2)
    successor = started(patient, 2)
    assert rule.met >= 1
    assert [c.step for c in successor.state.commits] == [10]
    assert records(plain) == [("owner", 1, None), ("fence", 1, None), ("commit", 1, 10), ("fence", 2, None)]


@pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_ANSWER, Act.REFUSE_LATE, Act.RESET_LATE])
def test_of_many_who_append_at_once_each_number_has_one_winner(
    proxy: FaultProxy, plain: S3Storage, prefix: str, act: Act
) -> None:
    storage = RetryingStorage(store(proxy, prefix))
    owner = CommitLog(storage, identity(1))
    owner.own("Auto")
    rule = proxy.add(act, "PUT", "log/", times=4)

    def start(attempt: int) -> str:
        try:
            started(storage, attempt)
        except FencedError:
            return "fenced"
        return "started"

    with storage.within(PATIENCE), ThreadPoolExecutor(6) as pool:
        results = list(pool.map(start, range(1, 7)))
    assert rule.met == 4
    fences = records(plain)[1:]
    assert [kind for kind, _, _ in fences] == ["fence"] * results.count("started")
    assert [attempt for _, attempt, _ in fences] == [n for n, result in enumerate(results, 1) if result == "started"]
    assert results[-1] == "started"
