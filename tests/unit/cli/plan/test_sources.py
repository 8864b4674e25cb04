"""What `holdfast plan` reads of a cluster: the job to compare with, and the profiles that no file has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.api.names import API_VERSION, JOB_KIND, PROFILE_KIND
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast_cli.cluster.connect import Target
from holdfast_cli.plan.sources import Given, ask_cluster

TIER = {"name": "cpu", "kind": "CPU", "pricePerNodeHour": "0.4"}
BASE = f"/apis/{API_VERSION}"


def job(name: str, **capacity: Any) -> dict[str, Any]:
    storage = {"s3": {"bucket": "runs", "prefix": name}}
    spec = {"trainer": {"image": "x", "command": ["t"]}, "capacity": capacity, "checkpoint": {"storage": storage}}
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": {"name": name}, "spec": spec}


def profile(name: str) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": PROFILE_KIND, "metadata": {"name": name}, "spec": {"tiers": [TIER]}}


class Api:
    """An API server with one job and two profiles; remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.objects = {
            f"{BASE}/namespaces/vision/trainingjobs/before": job("before", tiers=[TIER]),
            f"{BASE}/capacityprofiles/a": profile("a"),
            f"{BASE}/capacityprofiles/b": profile("b"),
        }

    async def request(self, method: str, path: str) -> dict[str, Any]:
        assert method == "GET"
        self.asked.append(path)
        return self.objects[path]


# Breaks if a profile of a file is replaced by that of the cluster, or the cluster is asked for what nobody needs.
def test_only_what_is_missing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()

    @asynccontextmanager
    async def connected(_: Target) -> AsyncIterator[Api]:
        yield api

    monkeypatch.setattr("holdfast_cli.plan.sources.connect", connected)
    jobs = [TrainingJob.parse(one) for one in (job("x", profile="a"), job("y", profile="b"), job("z", tiers=[TIER]))]
    of_file = CapacityProfile.parse(profile("a"))
    found = ask_cluster(Given(jobs, {"a": of_file}), Target(namespace="vision"), like="before")
    assert sorted(api.asked) == sorted([f"{BASE}/capacityprofiles/b", f"{BASE}/namespaces/vision/trainingjobs/before"])
    assert found.like is not None and found.like.metadata.name == "before"
    assert found.profile_of(jobs[0]) is of_file
    assert found.profile_of(jobs[1]) == CapacityProfile.parse(profile("b"))
    assert found.profile_of(jobs[2]) is None
    assert ask_cluster(Given(jobs[2:], {}), Target(namespace="vision"), like=None).like is None
