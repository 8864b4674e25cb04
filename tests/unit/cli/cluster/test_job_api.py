"""Reading events and jobs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import fake_api, listing
from tests.support.manifests.observed_jobs import UID, raw_job, running_job

from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect

EVENTS = "/api/v1/namespaces/demo/events"


@pytest.mark.parametrize(
    ("raw", "second", "count"),
    [
        ({"lastTimestamp": "2026-11-21T09:00:03Z", "count": 4}, 3, 4),
        ({"eventTime": "2026-11-21T09:00:05.000001Z", "lastTimestamp": None}, 5, 1),
        (
            {"eventTime": "2026-11-21T09:00:05Z", "series": {"count": 7, "lastObservedTime": "2026-11-21T09:00:09Z"}},
            9,
            7,
        ),
        ({"metadata": {"creationTimestamp": "2026-11-21T09:00:01Z"}}, 1, 1),
    ],
)
def test_both_ways_of_counting_events_are_read(raw: dict[str, Any], second: int, count: int) -> None:
    line = job_api.event_line(raw)
    assert (line.at.replace(microsecond=0), line.count) == (datetime(2026, 11, 21, 9, 0, second, tzinfo=UTC), count)


async def test_events_of_one_second_are_in_the_order_of_their_writing(tmp_path: Path) -> None:
    def event(version: str, reason: str) -> dict[str, Any]:
        meta = {"uid": reason, "resourceVersion": version}
        return {
            "metadata": meta, "reason": reason, "lastTimestamp": "2026-11-21T09:00:03Z", "involvedObject": {"uid": UID},
        }  # fmt: skip

    with fake_api() as api:
        api.answers["GET", EVENTS] = listing(event("100", "Second"), event("99", "First"))
        async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client:
            lines = await job_api.job_events(client, running_job())
    assert [line.reason for line in lines] == ["First", "Second"]


async def test_the_grid_may_be_in_a_profile(tmp_path: Path) -> None:
    profile = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "CapacityProfile",
        "metadata": {"name": "default"},
        "spec": {"tiers": [{"name": "only", "kind": "CPU"}]},
    }
    job = job_api.TrainingJob.parse(raw_job(capacity={"profile": "default"}))
    with fake_api() as api:
        api.answers["GET", "/apis/holdfast.dev/v1alpha1/capacityprofiles/default"] = profile
        async with connect(Target(api.kubeconfig(tmp_path / "config"))) as client:
            assert [tier.name for tier in await job_api.grid(client, job)] == ["only"]
