"""What is shown of a pod whose kubelet does not give its log for a moment, with and without --follow."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.decisions.snapshots import pod
from tests.support.manifests.observed_jobs import running_job
from tests.support.trainer.stores import MemoryStorage

from holdfast.core.observe.pods import PodView
from holdfast.runtime.errors import ApiError
from holdfast_cli.client.log_lines import LineSink
from holdfast_cli.logs.chosen import Choice
from holdfast_cli.logs.kept import KeptPodLog
from holdfast_cli.logs.pod_log import PodLog
from holdfast_cli.logs.reading import Rank
from holdfast_train.pod import kept_logs
from holdfast_train.storage.retrying import RetryingStorage

KEPT = gzip.compress(b'{"v":1,"cut":false}\n2026-01-01T00:00:00.000000000Z kept\n')


class Refusing:
    """A client whose API server does not reach the kubelet. A real one does so only for a moment."""

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        raise ApiError(502, "BadGateway", "the kubelet does not answer")
        yield b""


class Kept:
    """The storage has the log of each pod."""

    async def of(self, of: PodView) -> KeptPodLog:
        storage = MemoryStorage()
        storage.content[f"pod-logs/uid/a1-n0of1-{of.uid}.gz"] = KEPT
        (log,) = kept_logs.kept_logs(storage, "uid")
        return KeptPodLog(of, log, RetryingStorage(storage))


# Breaks if a log in the cluster is not opened again under --follow, because an older one that was kept is there; or if
# what is kept is not shown where nothing follows.
@pytest.mark.parametrize(("follow", "shown"), [(False, ["kept"]), (True, [])])
def test_a_log_that_cannot_be_read_for_a_moment(*, follow: bool, shown: list[str]) -> None:
    said: list[str] = []
    client: Any = Refusing()
    kept: Any = Kept()
    rank = Rank(client, kept, 0, Choice((0,)), LineSink((0,), str, said.append))

    async def read() -> list[str]:
        found = rank.there([pod(3)], running_job(), follow=follow)
        return [entry.text.decode() async for entry in found]

    assert asyncio.run(read()) == shown
    assert "cannot be read, lines may be missing: the kubelet does not answer" in said[0]
    assert isinstance(rank.log, PodLog) is follow
    assert not rank.done
