"""The commit log behind a network and a store that misbehave: each record once, each number one winner."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.http.fault_proxy import Act, FaultProxy
from tests.support.http.s3_server import S3Server
from tests.support.trainer.stores import identity
from tests.support.trainer.troubled_store import PATIENCE, store, troubled
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog import records as log
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.errors import FencedError
from holdfast_train.format import names
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage


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
    record, _ = found.commit(commit(10), Keep())
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
    found.commit(commit(10), Keep())
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
            taken.append(started(RetryingStorage(store(s3.endpoint, prefix)), 2))

    patient._sleep = take
    with pytest.raises(FencedError, match="attempt 2"):
        zombie.commit(commit(10), Keep())
    assert records(plain) == [("owner", 1, None), ("fence", 1, None), ("fence", 2, None)]


def test_a_commit_whose_answer_is_held_while_the_next_attempt_starts(
    proxy: FaultProxy, plain: S3Storage, s3: S3Server, prefix: str
) -> None:
    """Answers overtake each other: the commit came first, so it stands, and its writer learns of it late."""
    zombie = started(RetryingStorage(store(proxy.endpoint, prefix, read_seconds=30)), 1)
    rule = proxy.add(Act.HOLD, "PUT", "log/")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(zombie.commit, commit(10), Keep())
        wait_for(lambda: plain.size(names.log_key(3)) is not None, 30, "the commit to take effect")
        successor = started(RetryingStorage(plain), 2)
        assert [c.step for c in successor.state.commits] == [10]
        proxy.release(rule)
        assert late.result(30)[0].seq == 3
    with pytest.raises(FencedError):
        zombie.commit(commit(20), Keep())
    assert records(plain)[2:] == [("commit", 1, 10), ("fence", 2, None)]


def test_a_stale_list_costs_a_try_and_nothing_else(
    proxy: FaultProxy, patient: RetryingStorage, plain: S3Storage, s3: S3Server, prefix: str
) -> None:
    """A start that is shown an old list, or an empty one, cannot overwrite what it does not see."""
    reader = CommitLog(patient, identity(1))
    assert reader.refresh().seq == 0  # the list that is shown again later
    started(RetryingStorage(plain), 1).commit(commit(10), Keep())
    rule = proxy.add(Act.STALE, "GET", "list-type", times=2)
    successor = started(patient, 2)
    assert rule.met >= 1
    assert [c.step for c in successor.state.commits] == [10]
    assert records(plain) == [("owner", 1, None), ("fence", 1, None), ("commit", 1, 10), ("fence", 2, None)]


@pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_ANSWER, Act.REFUSE_LATE, Act.RESET_LATE])
def test_of_many_who_append_at_once_each_number_has_one_winner(
    proxy: FaultProxy, plain: S3Storage, prefix: str, act: Act
) -> None:
    storage = RetryingStorage(store(proxy.endpoint, prefix))
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
