"""A store that is away for a while: the writer keeps the copy of the state, and commits it when the store is back."""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from tests.support.http.fault_proxy import Act, FaultProxy
from tests.support.http.s3_server import S3Server
from tests.support.trainer.restores import restore_whole
from tests.support.trainer.stores import environment, identity, writer_in_thread
from tests.support.waiting import wait_for

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.records import Fence
from holdfast_train.errors import HoldfastTrainError
from holdfast_train.format.names import CheckpointName
from holdfast_train.save.messages import Open
from holdfast_train.save.saver import Saver
from holdfast_train.save.training_state import TrainingState
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.timings import Timings

NAME = CheckpointName(1, 1, "0f")


class State:
    """Bytes that are all alike, so that a mixture of two steps shows."""

    def __init__(self) -> None:
        self.values = np.zeros(200_000, np.uint8)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


@dataclass
class Rank:
    """One rank that trains. Its writer reaches the store at `endpoint`."""

    s3: S3Server
    endpoint: str
    prefix: str
    fence: Fence | None
    rank: int = 0
    ranks: int = 1
    results: list[Saved | HoldfastTrainError] = field(default_factory=list)
    kept: list[HoldfastTrainError] = field(default_factory=list)

    def __post_init__(self) -> None:
        variables = self.s3.variables | {"checkpoint_endpoint": self.endpoint}
        where = environment(f"s3://{self.s3.bucket}/{self.prefix}", 1, **variables)
        self.state = State()
        where = replace(where, timings=Timings(retry=0.05))
        self.saver = Saver(
            Open(where, self.rank, self.ranks, self.fence),
            TrainingState({"state": self.state}, {}),
            lambda _, result: self.results.append(result),
            lambda _, why: self.kept.append(why),
        )

    def save(self) -> None:
        """Save step 1, then change the state as the next step does."""
        self.state.values[:] = 1
        self.saver.begin(NAME, 1, patience=0.0)
        self.state.values[:] = 255


@pytest.fixture
def fence(plain: S3Storage) -> Fence:
    found = Checkpoints(plain, identity(1), Keep())
    found.start("Auto")
    assert found.log.fence is not None
    # The environment of a rank has another name of the pod, which only the fence's nonce has to match.
    return found.log.fence


def committed(plain: S3Storage) -> tuple[list[int], bytes]:
    """The steps in the log, and the bytes of the newest checkpoint, which must be intact."""
    found = Checkpoints(plain, identity(2), Keep())
    found.start("Auto")
    whole = restore_whole(found)
    assert whole is not None
    return [c.step for c in found.log.state.commits], whole.state["objects"]["state"]["values"].tobytes()


INTACT = [1], bytes([1]) * 200_000


def outage(proxy: FaultProxy) -> Any:
    """Every request fails until `times` of the rule is 0."""
    return proxy.add(Act.RESET, times=1_000_000)


@pytest.fixture
def make(s3: S3Server, proxy: FaultProxy, prefix: str, fence: Fence) -> Callable[..., Rank]:
    """Makes rank 0 of one, whose writer reaches the store through the proxy. `more`: of a Rank."""

    def rank(**more: Any) -> Rank:
        return Rank(**({"s3": s3, "endpoint": proxy.endpoint, "prefix": prefix, "fence": fence} | more))

    return rank


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Writers are threads."""
    monkeypatch.setattr("holdfast_train.save.saver.start_writer", writer_in_thread)
    yield


def test_a_writer_process_commits_its_copy_after_its_trainer_has_ended(
    proxy: FaultProxy, plain: S3Storage, make: Callable[..., Rank]
) -> None:
    """Breaks if the state of a trainer that dies in an outage is lost although the store is back."""
    down = outage(proxy)
    rank = make()
    rank.save()
    wait_for(lambda: rank.saver._arenas.names("kept"), 60, "the save to be kept")
    down.times = 0
    rank.saver.close()
    wait_for(lambda: plain.keys("manifests/") and len(plain.keys("log/")) == 3, 60, "the commit")
    assert committed(plain) == INTACT


@pytest.mark.usefixtures("in_threads")
def test_the_store_is_back_and_the_copy_is_committed(
    proxy: FaultProxy, plain: S3Storage, make: Callable[..., Rank]
) -> None:
    down = outage(proxy)
    rank = make()
    rank.save()
    wait_for(lambda: len(rank.kept) > 2, 60, "further tries")
    assert down.met > 2
    down.times = 0
    wait_for(lambda: rank.results, 60, "the result")
    rank.saver.close()
    assert isinstance(rank.results[0], Saved)
    assert committed(plain) == INTACT


@pytest.mark.parametrize("act", [Act.RESET_LATE, Act.LOSE_ANSWER, Act.REFUSE_LATE])
@pytest.mark.usefixtures("in_threads")
def test_a_commit_whose_answer_is_lost_is_in_the_log_once(
    proxy: FaultProxy, plain: S3Storage, make: Callable[..., Rank], act: Act
) -> None:
    """Breaks if a further try commits again, or writes a manifest with another hash."""
    rule = proxy.add(act, "PUT", "/log/")
    rank = make()
    rank.save()
    wait_for(lambda: rank.results, 60, "the result")
    rank.saver.close()
    assert rule.met == 1
    assert len(rank.kept) == 1
    assert isinstance(rank.results[0], Saved)
    assert committed(plain) == INTACT


@pytest.mark.usefixtures("in_threads")
def test_an_outage_of_one_rank_costs_nobody_the_checkpoint(
    s3: S3Server, proxy: FaultProxy, plain: S3Storage, make: Callable[..., Rank]
) -> None:
    """Breaks if rank 1 gives its part up after a short silence, while rank 0 waits for it."""
    down = outage(proxy)
    first, second = make(endpoint=s3.endpoint, ranks=2), make(fence=None, rank=1, ranks=2)
    saving = [threading.Thread(target=rank.save) for rank in (first, second)]
    for thread in saving:
        thread.start()
    wait_for(lambda: down.met > 3, 60, "tries of rank 1")
    assert first.results == first.kept == []
    down.times = 0
    for thread in saving:
        thread.join(60)
    for rank in (first, second):
        assert rank.saver.wait(lambda: math.inf)
    wait_for(lambda: first.results, 60, "the result")
    for rank in (first, second):
        rank.saver.close()
    assert isinstance(first.results[0], Saved)
    assert committed(plain) == INTACT
