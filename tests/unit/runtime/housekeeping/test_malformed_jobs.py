from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_job

from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping import malformed_jobs
from holdfast.runtime.informer.cache import Key, Malformed

A = Key("ns", "a")
PATH = "/apis/holdfast.dev/v1alpha1/namespaces/ns/trainingjobs/a"


def malformed(bench: Any) -> Malformed:
    """A job that the cache cannot read."""
    raw = raw_job()
    raw["spec"]["trainer"]["image"] = 3
    raw["status"] = {"conditions": [{"type": "Other", "status": "True"}]}
    bench.cache.put_job(bench.client.put(PATH, raw))
    found: Malformed = bench.cache.malformed[A]
    return found


async def test_the_condition_names_the_field_and_is_written_once(bench: Any) -> None:
    assert await malformed_jobs.report(bench.writer, bench.cache, A, malformed(bench))
    other, accepted = bench.client.objects[PATH]["status"]["conditions"]
    assert other["type"] == "Other"
    assert (accepted["type"], accepted["status"], accepted["reason"]) == ("Accepted", "False", "Malformed")
    assert "spec.trainer.image" in accepted["message"]
    assert not await malformed_jobs.report(bench.writer, bench.cache, A, bench.cache.malformed[A])


@pytest.mark.parametrize("error", [ApiError(404, "NotFound", "x"), ApiError(409, "Conflict", "x")])
async def test_a_job_that_changes_meanwhile_is_left_to_the_watch(bench: Any, error: ApiError) -> None:
    found = malformed(bench)
    bench.client.on("PATCH", "trainingjobs", error)
    assert not await malformed_jobs.report(bench.writer, bench.cache, A, found)
