"""Profiles, their jobs, and the operator that keeps the status of the profiles."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from tests.support.operator.fake_api_server import Clock, FakeClient, raw_job, raw_pod
from tests.support.operator.whole_lists import replace_all

from holdfast.api import names
from holdfast.api.profile import CapacityProfileStatus
from holdfast.api.scalars import format_duration, format_time
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.housekeeping.profile_knowledge import ProfileStatusWriter
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast.serve.token_bucket import TokenBucket

EVERY = 30.0
PATH = f"/apis/{names.API_VERSION}/{names.PROFILE_PLURAL}"
TIERS = ("spot", "dedicated")


class World:
    """An API server with profiles and jobs, and one operator after the other that keeps the profiles."""

    def __init__(self, runner: asyncio.Runner, *profiles: str) -> None:
        self.runner = runner
        self.client = FakeClient()
        self.clock = Clock()
        self.version = 1000
        self.jobs: dict[str, dict[str, Any]] = {}
        for name in profiles or ("grid",):
            self.put_profile(name)
        self.restart()

    def restart(self) -> None:
        """Another operator takes over; nothing is left of what the one before had in memory."""
        self.cache, self.queue = Cache(), WorkQueue[Key](self.clock)
        gate = LeadershipGate(self.clock)
        gate.keep_open(float("inf"))
        writer = GatedWriter(self.client, gate, TokenBucket(1e6, 1e6, self.clock))
        self.profiles = ProfileStatusWriter(
            writer, self.cache, self.queue, every=EVERY, acquire_time=timedelta(minutes=1), now=self.clock.now,
            clock=self.clock,
        )  # fmt: skip
        replace_all(self.cache, "profiles", self.client.objects.values(), self.client.version)
        replace_all(self.cache, "jobs", self.jobs.values(), self.version)
        self.profiles.begin()

    def put_profile(self, name: str, uid: str = "", tiers: Iterable[str] = TIERS) -> dict[str, Any]:
        grid = [{"name": tier, "kind": "Spot"} for tier in tiers]
        return self.client.put(
            f"{PATH}/{name}", {"metadata": {"name": name, "uid": uid or name}, "spec": {"tiers": grid}}
        )

    def job(
        self, name: str, profile: str | None = "grid", interruptions: int = 0, node_time: float = 0, **status: Any
    ) -> None:
        """The job as it is now; `interruptions` of spot, and its node time there in seconds. A new job has none at
        first."""
        if name not in self.jobs and (interruptions or node_time):
            self.job(name, profile)
        self.version += 1
        tiers = [
            {"tier": "spot", "interruptions": interruptions, "nodeTime": format_duration(timedelta(seconds=node_time))}
        ]
        raw = raw_job(
            name, f"u-{name}", self.version, **({"tiers": tiers} if interruptions or node_time else {}), **status
        )
        raw["spec"]["capacity"] = {"profile": profile} if profile else raw["spec"]["capacity"]
        raw["metadata"]["generation"] = self.version
        self.jobs[name] = raw
        self.cache.put_job(raw)

    def delete(self, name: str) -> None:
        self.version += 1
        raw = self.jobs.pop(name)
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.cache.drop("jobs", raw)

    def once(self) -> None:
        self.runner.run(self.profiles.once())

    def end(self) -> None:
        """The operator ends, and writes what is left."""
        self.runner.run(self.profiles.flush())

    def pass_by(self, seconds: float = EVERY) -> None:
        self.clock.tick(seconds)
        self.once()

    @property
    def writes(self) -> int:
        return len(self.client.sent("PATCH"))

    def status(self, name: str = "grid") -> CapacityProfileStatus:
        return CapacityProfileStatus.model_validate(self.client.objects[f"{PATH}/{name}"].get("status") or {})

    def spot(self, name: str = "grid") -> tuple[int, timedelta]:
        found = {one.tier: one for one in self.status(name).tiers}
        return (found["spot"].interruptions, found["spot"].node_time) if "spot" in found else (0, timedelta(0))

    def refused(self) -> list[dict[str, Any]]:
        """What a job writes into its status when spot, which it has used before, gave it no node."""
        now = format_time(self.clock.now())
        return [{"tier": "spot", "state": "Refused", "since": now, "seenAt": now, "nodeTime": "1m"}]

    def waiting(self, name: str, reason: str, message: str, **status: Any) -> None:
        """The job has used spot before, and its pod waits for a node of it; the scheduler says why."""
        at = format_time(self.clock.now() - timedelta(seconds=90))
        tier = {"name": "spot", "kind": "Spot"}
        current = {"number": 1, "state": "Acquiring", "tier": tier, "raisedAt": at, "createdAt": at}
        self.job(name, node_time=60, phase="Acquiring", attempt=1, current=current, **status)
        pod = raw_pod(f"{name}-1-0", f"p-{name}", self.version, job=name, job_uid=f"u-{name}")
        words = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        pod["status"]["conditions"] = [words]
        self.cache.put_pod(pod)

    def running(self, since: float) -> dict[str, Any]:
        """Fields of a job that has had a node of spot for so many seconds."""
        at = format_time(self.clock.now() - timedelta(seconds=since))
        tier = {"name": "spot", "kind": "Spot"}
        current = {"number": 1, "state": "Running", "tier": tier, "raisedAt": at, "createdAt": at, "scheduledAt": at}
        current["pods"] = [{"uid": "p", "node": "n", "nodeUid": "u", "granted": True}]
        return {"phase": "Running", "attempt": 1, "current": current}
