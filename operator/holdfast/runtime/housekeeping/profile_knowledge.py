"""What all jobs know of the tiers: the leader writes it into the status of CapacityProfiles, at a bounded rate.

A profile is checked when one of its jobs observed something, and regularly, because a job that keeps its node shows
that the tier is up. Its status is written if other jobs need the change (see core.capacity.profile_knowledge), at most
once in `every` seconds, and at most WRITES profiles per second over the cluster.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from holdfast.api.attempt import Attempt
from holdfast.api.knowledge import Seen
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity import bad_nodes, interruptions, profile_knowledge
from holdfast.core.capacity.interruptions import NOTHING, InterruptionCount, InterruptionCounts
from holdfast.core.capacity.knowledge import with_attempts
from holdfast.core.observe.demand import refusal_of
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

TICK = 1.0  # seconds
WRITES = 3  # profiles in one tick
DECIDE_GAP = 0.25  # seconds between two jobs that decide again because a tier came or went


class ProfileCount:
    """Interruptions and node time of the jobs of one profile, since this operator became the leader.

    `counts` are the counts of each job at that time, by job UID; `status` is the status written last.
    """

    def __init__(self, status: CapacityProfileStatus, counts: Mapping[str, InterruptionCounts]) -> None:
        self._counts = dict(counts)
        self._totals = interruptions.take_over(status, self.level)

    def join(self, uid: str, counts: InterruptionCounts) -> None:
        """Count for a job that uses the profile from now on. Its earlier counts belong to another profile."""
        self._counts.setdefault(uid, counts)

    def update(self, uid: str, counts: InterruptionCounts) -> None:
        """Add what the job has counted since its last update."""
        before = self._counts.get(uid, counts)
        for tier, now in counts.items():
            rise = now.minus(before.get(tier, NOTHING))
            # Node time may fall by seconds, when an attempt turns out to have ended earlier. Interruptions never fall.
            rise = InterruptionCount(max(rise.interruptions, 0), rise.node_time)
            self._totals[tier] = self._totals.get(tier, NOTHING).plus(rise)
        self._counts[uid] = counts

    def leave(self, uid: str) -> None:
        """Stop counting for a job that was deleted or uses another profile. Its counts stay in the totals."""
        self._counts.pop(uid, None)

    @property
    def uids(self) -> set[str]:
        """UIDs of the jobs that use the profile."""
        return set(self._counts)

    @property
    def level(self) -> dict[str, InterruptionCount]:
        """The counts of these jobs together."""
        return interruptions.total(self._counts.values())

    def totals(self, tiers: Iterable[str]) -> dict[str, InterruptionCount]:
        """All counts of these tiers, faded; other tiers are forgotten."""
        self._totals = {tier: interruptions.fade(self._totals[tier]) for tier in tiers if tier in self._totals}
        return self._totals


@dataclass(slots=True)
class _Entry:
    """A profile whose status this operator writes. Times are of the clock."""

    uid: str
    count: ProfileCount
    checked: float
    written: float = float("-inf")
    changed: bool = True  # one of its jobs has observed something since the last check

    def is_due(self, now: float, every: float) -> bool:
        return now >= self.checked + every or (self.changed and now >= self.written + every)


class ProfileStatusWriter:
    """Writes the status of every CapacityProfile. Use it inside one event loop.

    `every` is in seconds, `acquire_time` as in `with_attempts`. After `begin` the cache reports each change of a job.
    """

    def __init__(
        self,
        writer: GatedWriter,
        cache: Cache,
        queue: WorkQueue[Key],
        *,
        every: float,
        acquire_time: timedelta,
        now: Callable[[], datetime],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._queue = queue
        self._every = every
        self._acquire_time = acquire_time
        self._now = now
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def begin(self) -> None:
        """Take over the written counts. Call it once the cache is filled; counting starts with this call."""
        self._cache.listeners.append(self._job_changed)
        self._update_entries()

    async def run(self) -> None:
        """Check and write until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            await self.once()

    async def once(self) -> None:
        """Check the profiles that are due, and write changes. An error of the API server is logged and retried."""
        if not self._writer.may_write:
            return
        self._update_entries()
        now, left = self._clock(), WRITES
        for name, entry in sorted(self._entries.items(), key=lambda item: item[1].checked):
            if left and entry.is_due(now, self._every):
                left -= await self._check_and_write(name, entry)

    async def flush(self) -> None:
        """Write all changes now, because this operator ends."""
        for name, entry in list(self._entries.items()):
            if self._writer.may_write:
                await self._check_and_write(name, entry, at_once=True)

    def keep_only(self, job_uids: set[str]) -> None:
        """Forget all other jobs."""
        for entry in self._entries.values():
            for uid in entry.count.uids - job_uids:
                entry.count.leave(uid)

    def _jobs(self, profile: str) -> list[TrainingJob]:
        """The jobs that use the profile now: after a write the cache may have other jobs."""
        return [job for job in self._cache.jobs.values() if job.spec.capacity.profile == profile]

    def _update_entries(self) -> None:
        """Add new profiles and forget deleted ones."""
        for name in self._entries.keys() - self._cache.profiles.keys() - self._cache.bad_profiles.keys():
            del self._entries[name]
        now = self._now()
        for name, profile in self._cache.profiles.items():
            entry, uid = self._entries.get(name), profile.metadata.uid
            if entry is None or entry.uid != uid:
                counts = {job.metadata.uid: interruptions.of_job(job.status, now) for job in self._jobs(name)}
                self._entries[name] = _Entry(uid, ProfileCount(profile.status, counts), self._clock())

    def _job_changed(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        was, now = _profile(before), _profile(after)
        if before and was != now and (left := self._entries.get(was)):
            left.count.update(before.metadata.uid, interruptions.of_job(before.status, self._now()))
            left.count.leave(before.metadata.uid)
            left.changed = True
        if after and before is None:  # a job that was malformed for a while may have another profile now
            for name in self._entries.keys() - {now}:
                self._entries[name].count.leave(after.metadata.uid)
        if after and (entry := self._entries.get(now)):
            entry.count.join(after.metadata.uid, interruptions.of_job(after.status, self._now()))
            entry.changed = entry.changed or before is None or before.status.tiers != after.status.tiers

    async def _check_and_write(self, name: str, entry: _Entry, *, at_once: bool = False) -> bool:
        """True if a write was tried. With `at_once`, every change is written, even right after the last write."""
        profile, bad, now = self._cache.profiles.get(name), self._cache.bad_status.get(name), self._clock()
        if profile is None or profile.metadata.uid != entry.uid:
            return False
        status = self._status(profile, entry.count)
        entry.checked = now
        entry.changed = bad is not None or profile_knowledge.is_news(profile.status, status)
        if not (entry.changed and now >= entry.written + self._every) and not (at_once and status != profile.status):
            return False
        entry.written, entry.changed = now, False
        if bad:
            log.warning("replacing the status of CapacityProfile %s, which cannot be read: %s", name, bad)
        try:
            await self._write(profile, status)
        except ApiError as error:
            entry.changed = True
            if not error.conflict and not error.not_found:  # the watch brings the current version
                log.warning(
                    "cannot write the status of CapacityProfile %s: %s; next try in %.0fs", name, error, self._every
                )
            return True
        if profile_knowledge.availability_changed(profile.status, status):
            self._decide_again(self._jobs(name))
        return True

    def _status(self, profile: CapacityProfile, count: ProfileCount) -> CapacityProfileStatus:
        now, tiers, jobs = self._now(), [tier.name for tier in profile.spec.tiers], self._jobs(profile.metadata.name)
        for job in jobs:
            count.update(job.metadata.uid, interruptions.of_job(job.status, now))
        known = profile_knowledge.profile_status(
            tiers,
            profile.status,
            [self._view(job, profile, now) for job in jobs],
            totals=count.totals(tiers),
            level=count.level,
            now=now,
        )
        return known.model_copy(update={"faulty_nodes": bad_nodes.of_profile(profile, jobs, self._cache.cluster, now)})

    def _view(self, job: TrainingJob, profile: CapacityProfile, now: datetime) -> profile_knowledge.JobView:
        """What the job knows now. The words of the scheduler say why a pod of it waits."""
        key, trainer, cluster = Key(job.metadata.namespace, job.metadata.name), job.spec.trainer, self._cache.cluster

        def shown(attempt: Attempt) -> Seen:
            mine = [pod for pod in self._cache.pods(key) if pod.job_uid == job.metadata.uid]
            return refusal_of(mine, attempt, trainer, cluster)

        known = with_attempts(job.status, now, self._acquire_time, shown)
        return profile_knowledge.JobView.of(job, known, profile.spec.tiers)

    async def _write(self, profile: CapacityProfile, status: CapacityProfileStatus) -> None:
        """Write every field, including empty ones, because the old status may have any content."""
        meta = profile.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": {"seenAt": None, "tiers": [], "faultyNodes": [], "counted": [], **status.to_object()},
        }
        self._cache.put_profile(await self._writer.write("PATCH", f"{paths.PROFILES}/{meta.name}/status", body))

    def _decide_again(self, jobs: list[TrainingJob]) -> None:
        """Decide again for every job, because a tier came or went. One after the other: there may be thousands."""
        waiting = [job.metadata for job in jobs if not (job.status.phase and job.status.phase.final)]
        for number, meta in enumerate(waiting, start=1):
            self._queue.after(Key(meta.namespace, meta.name), number * DECIDE_GAP, calm=True)


def _profile(job: TrainingJob | None) -> str:
    return (job.spec.capacity.profile or "") if job else ""
