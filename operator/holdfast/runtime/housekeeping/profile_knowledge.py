"""What is known of tiers, cluster-wide: the leader writes it into the status of CapacityProfiles, at a bounded rate.

A profile is looked at when one of its jobs has learned something, and now and then, since a job that keeps its node
shows that the tier is up. It is written if that is news to others (see core.capacity.profile_knowledge), `every`
seconds after the last time at the earliest, and at most WRITES profiles a second over the cluster.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import CapacityProfileStatus
from holdfast.core.capacity import loss_counts, profile_knowledge
from holdfast.core.capacity.knowledge import present
from holdfast.core.capacity.loss_counts import NOTHING, Tallies, Tally
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Writer
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue

log = logging.getLogger(__name__)

TICK = 1.0  # seconds
WRITES = 3  # profiles in one tick
ASKED = 0.25  # seconds from one job to the next that is asked again because a tier came or went


class Count:
    """What the jobs of one profile count, from the moment on at which this operator took over.

    `told` is what each of them had counted by then, by its UID; `status` is what was written last.
    """

    def __init__(self, status: CapacityProfileStatus, told: Mapping[str, Tallies]) -> None:
        self._told = dict(told)
        self._totals = loss_counts.taken_over(status, self.level)

    def join(self, uid: str, told: Tallies) -> None:
        """A job uses the profile from now on. What it has counted before, it has counted elsewhere."""
        self._told.setdefault(uid, told)

    def tell(self, uid: str, told: Tallies) -> None:
        """What the job has counted by now."""
        before = self._told.get(uid, told)
        for tier, now in told.items():
            rise = now.minus(before.get(tier, NOTHING))
            # The time may fall by seconds: an attempt had ended before that was known. Losses never do.
            rise = Tally(max(rise.losses, 0), rise.had)
            self._totals[tier] = self._totals.get(tier, NOTHING).plus(rise)
        self._told[uid] = told

    def leave(self, uid: str) -> None:
        """The job is gone, or uses another profile. What it has told stays counted."""
        self._told.pop(uid, None)

    @property
    def uids(self) -> set[str]:
        """The jobs that count."""
        return set(self._told)

    @property
    def level(self) -> dict[str, Tally]:
        """What they have counted together."""
        return loss_counts.total(self._told.values())

    def totals(self, tiers: Iterable[str]) -> dict[str, Tally]:
        """What was ever counted of these tiers, faded; others are forgotten."""
        self._totals = {tier: loss_counts.faded(self._totals[tier]) for tier in tiers if tier in self._totals}
        return self._totals


@dataclass(slots=True)
class _Kept:
    """A profile whose status is kept up to date. Times are of the clock."""

    uid: str
    count: Count
    looked: float
    written: float = float("-inf")
    learned: bool = True  # by one of its jobs, since it was last looked at

    def due(self, now: float, every: float) -> bool:
        return now >= self.looked + every or (self.learned and now >= self.written + every)


class Profiles:
    """Keeps the status of every CapacityProfile. Use it inside one event loop.

    `every` is in seconds, `asking` as in `present`. From `begin` on it hears of every change of a job.
    """

    def __init__(
        self,
        writer: Writer,
        cache: Cache,
        queue: WorkQueue[Key],
        *,
        every: float,
        asking: timedelta,
        now: Callable[[], datetime],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._writer = writer
        self._cache = cache
        self._queue = queue
        self._every = every
        self._asking = asking
        self._now = now
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def begin(self) -> None:
        """Take over what was written, once the cache is filled: all that is counted from here on is counted here."""
        self._cache.listeners.append(self._job_changed)
        self._keep()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            await self.once()

    async def once(self) -> None:
        """Look at what is due, and write what is news. Errors of the API server are logged, and tried again later."""
        if not self._writer.open:
            return
        self._keep()
        now, left = self._clock(), WRITES
        for name, kept in sorted(self._kept.items(), key=lambda item: item[1].looked):
            if left and kept.due(now, self._every):
                left -= await self._look_and_write(name, kept)

    async def flush(self) -> None:
        """Write all that was learned, at once: this operator is about to end."""
        for name, kept in list(self._kept.items()):
            if self._writer.open:
                await self._look_and_write(name, kept, at_once=True)

    def keep_only(self, job_uids: set[str]) -> None:
        """Forget all other jobs."""
        for kept in self._kept.values():
            for uid in kept.count.uids - job_uids:
                kept.count.leave(uid)

    def _jobs(self, profile: str) -> list[TrainingJob]:
        """Those that use it, as they are now: after a write they may be others."""
        return [job for job in self._cache.jobs.values() if job.spec.capacity.profile == profile]

    def _keep(self) -> None:
        """Begin with profiles that are new, and forget those that are gone."""
        for name in self._kept.keys() - self._cache.profiles.keys() - self._cache.bad_profiles.keys():
            del self._kept[name]
        now = self._now()
        for name, profile in self._cache.profiles.items():
            kept, uid = self._kept.get(name), profile.metadata.uid
            if kept is None or kept.uid != uid:
                told = {job.metadata.uid: loss_counts.of_job(job.status, now) for job in self._jobs(name)}
                self._kept[name] = _Kept(uid, Count(profile.status, told), self._clock())

    def _job_changed(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        was, now = _profile(before), _profile(after)
        if before and was != now and (left := self._kept.get(was)):
            left.count.tell(before.metadata.uid, loss_counts.of_job(before.status, self._now()))
            left.count.leave(before.metadata.uid)
            left.learned = True
        if after and before is None:  # one that could not be read for a while may have changed its profile meanwhile
            for name in self._kept.keys() - {now}:
                self._kept[name].count.leave(after.metadata.uid)
        if after and (kept := self._kept.get(now)):
            kept.count.join(after.metadata.uid, loss_counts.of_job(after.status, self._now()))
            kept.learned = kept.learned or before is None or before.status.tiers != after.status.tiers

    async def _look_and_write(self, name: str, kept: _Kept, *, at_once: bool = False) -> bool:
        """True if it was tried to write. `at_once`: all that is not written yet, even a moment after the last time."""
        profile, bad, now = self._cache.profiles.get(name), self._cache.bad_status.get(name), self._clock()
        if profile is None or profile.metadata.uid != kept.uid:
            return False
        status = self._look(profile, kept.count)
        kept.looked = now
        kept.learned = bad is not None or profile_knowledge.is_news(profile.status, status)
        if not (kept.learned and now >= kept.written + self._every) and not (at_once and status != profile.status):
            return False
        kept.written, kept.learned = now, False
        if bad:
            log.warning("the status of CapacityProfile %s cannot be read, and is written anew: %s", name, bad)
        try:
            await self._write(profile, status)
        except ApiError as error:
            kept.learned = True
            if not error.conflict and not error.not_found:  # then the watch brings what is there now
                log.warning("the status of CapacityProfile %s: %s; again in %.0f s", name, error, self._every)
            return True
        if profile_knowledge.turned(profile.status, status):
            self._ask_again(self._jobs(name))
        return True

    def _look(self, profile: CapacityProfile, count: Count) -> CapacityProfileStatus:
        now, tiers, jobs = self._now(), [tier.name for tier in profile.spec.tiers], self._jobs(profile.metadata.name)
        for job in jobs:
            count.tell(job.metadata.uid, loss_counts.of_job(job.status, now))
        return profile_knowledge.profile_status(
            tiers,
            profile.status,
            [present(job.status, now, self._asking) for job in jobs],
            totals=count.totals(tiers),
            level=count.level,
            now=now,
        )

    async def _write(self, profile: CapacityProfile, status: CapacityProfileStatus) -> None:
        """Every field is written, also where it is empty: what stood there may have been anything."""
        meta = profile.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
            "status": {"seenAt": None, "tiers": [], "counted": [], **status.to_object()},
        }
        self._cache.put_profile(await self._writer.write("PATCH", f"{paths.PROFILES}/{meta.name}/status", body))

    def _ask_again(self, jobs: list[TrainingJob]) -> None:
        """A tier came or went: every job may want to be elsewhere. One after the other, for there may be thousands."""
        waiting = [job.metadata for job in jobs if not (job.status.phase and job.status.phase.final)]
        for number, meta in enumerate(waiting, start=1):
            self._queue.after(Key(meta.namespace, meta.name), number * ASKED, calm=True)


def _profile(job: TrainingJob | None) -> str:
    return (job.spec.capacity.profile or "") if job else ""
