"""The loop: take a key, collect the snapshot, decide, execute, schedule the next pass."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from time import monotonic
from typing import Protocol

from holdfast.api.objects import TrainingJob
from holdfast.core.decision import Decision
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.snapshot import Snapshot
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping import malformed_jobs
from holdfast.runtime.housekeeping.orphaned_pods import OrphanedPods
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast.runtime.loop.execute import Executor, Outcome
from holdfast.runtime.loop.progress_slots import ProgressSlots

log = logging.getLogger(__name__)

Decide = Callable[[Snapshot], Decision]
Observe = Callable[[str, float, tuple[str, ...]], None]  # result, seconds, rules that fired

CONFLICTS = 4  # how often one pass decides again before it gives the key back
SETTLE = 0.2  # seconds from own actions until the next pass over the job, if no event comes before


class Reports(Protocol):
    """The reports of pods."""

    def of(self, pod_uids: tuple[str, ...]) -> Mapping[str, Report]:
        """The newest report of each of these pods."""


class Reconciler:
    """Works on one key at a time per worker. An error of one job does not stop the others."""

    def __init__(
        self,
        decide: Decide,
        *,
        queue: WorkQueue[Key],
        cache: Cache,
        executor: Executor,
        reports: Reports,
        slots: ProgressSlots,
        config: OperatorConfig,
        now: Callable[[], datetime],
    ) -> None:
        self._decide = decide
        self._queue = queue
        self._cache = cache
        self._executor = executor
        self._writer = executor.writer
        self._reports = reports
        self._slots = slots
        self._config = config
        self._now = now
        self._since = now()
        self._orphans = OrphanedPods(executor.writer, executor.pods)
        self.observe: Observe = lambda result, seconds, rules: None

    async def work(self) -> None:
        """Run one worker until the queue is closed."""
        while (key := await self._queue.get()) is not None:
            await self.once(key)

    async def once(self, key: Key) -> None:
        """Make one pass over a key from the queue. Never raises."""
        started, result = monotonic(), "error"
        rules: tuple[str, ...] = ()
        try:
            result, rules, again = await self._pass(key)
        except ApiError as error:
            delay = self._queue.failed(key, error.retry_after or 0.0)
            log.warning("%s; next try in %.1fs", error, delay, extra={"job": "/".join(key)})
        except Exception:
            delay = self._queue.failed(key)
            log.exception("cannot decide this job; next try in %.1fs", delay, extra={"job": "/".join(key)})
        else:
            self._queue.done(key)
            if again is not None:
                self._queue.after(key, again)
        finally:
            self.observe(result, monotonic() - started, rules)

    async def _pass(self, key: Key) -> tuple[str, tuple[str, ...], float | None]:
        for _ in range(CONFLICTS):
            pods, job = self._cache.pods(key), self._cache.jobs.get(key)
            again: list[float] = []
            malformed = self._cache.malformed.get(key)
            alive = job.metadata.uid if job else malformed.uid if malformed else None
            for stray in self._cache.strays.of(key):
                log.info("releasing pod %s: it is not a pod of a job", stray.name, extra={"job": "/".join(key)})
                await self._executor.pods.release(key, stray.name, stray.uid)
            if orphans := [pod for pod in pods if pod.job_uid != alive]:
                later = await self._orphans.release(key, orphans, self._cache.cluster, self._now())
                if later is not None:
                    again.append(later.total_seconds())
            if job is None:
                if malformed:
                    wrote = await malformed_jobs.report(self._writer, self._cache, key, malformed)
                    return ("malformed" if wrote else "quiet"), (), min(again, default=None)
                return "gone", (), min(again, default=None)
            outcome, decision, wait = await self._decide_and_act(key, job, pods)
            if outcome in (Outcome.CONFLICT, Outcome.GONE):
                continue
            again += wait
            return outcome.value, decision.trace, min(again, default=None)
        raise ApiError(409, "Conflict", f"the job changed during {CONFLICTS} decisions in a row")

    async def _decide_and_act(
        self, key: Key, job: TrainingJob, pods: tuple[PodView, ...]
    ) -> tuple[Outcome, Decision, list[float]]:
        uid = job.metadata.uid
        mine = tuple(pod for pod in pods if pod.job_uid == uid)
        reports = self._reports.of(tuple(pod.uid for pod in mine))
        slot, now = self._slots.take(key), self._now()
        seen = malformed_jobs.without_condition(job)
        closed_for = self._executor.closed.closed_for(seen)
        snapshot = Snapshot(
            now=now,
            job=seen,
            pods=mine,
            cluster=self._cache.cluster,
            reports=reports,
            members=self._executor.members.of(pod.uid for pod in mine),
            others=self._cache.room(),
            inspections=self._executor.inspector.of(pod.uid for pod in mine),
            profile=self._cache.profiles.get(seen.spec.capacity.profile or ""),
            refusal=self._executor.refusals.get(uid),
            # While this process does not lead, it receives no reports: what it knows of a trainer is old.
            listening_since=max(self._since, now - timedelta(seconds=self._writer.leading_for)),
            namespace_closed=closed_for is not None,
            progress_slot=slot,
            config=self._config,
        )
        decision = self._decide(snapshot)
        self._log(key, seen, decision)
        outcome, progressed = await self._executor.apply(job, decision)
        wait = [max(0.001, (decision.requeue_at - self._now()).total_seconds())] if decision.requeue_at else []
        if closed_for is not None:
            wait.append(closed_for + 0.001)
        if progressed and slot:
            self._slots.record_write(key)
        elif progressed or slot:  # progress in a write that had another reason uses no slot
            self._slots.leave(key)
        elif _has_news(seen, reports, self._config.status_interval, now):
            self._slots.wait(key)
        if decision.actions:
            self._queue.after(key, SETTLE, calm=True)
        return outcome, decision, wait

    def _log(self, key: Key, job: TrainingJob, decision: Decision) -> None:
        level = logging.INFO if decision.actions or decision.events else logging.DEBUG
        if log.isEnabledFor(level):
            extra = {
                "job": "/".join(key),
                "attempt": decision.status.attempt,
                "phase": decision.status.phase,
                "trace": list(decision.trace),
                "actions": [type(action).__name__ for action in decision.actions],
            }
            log.log(level, "decided", extra=extra)


def _has_news(job: TrainingJob, reports: Mapping[str, Report], interval: timedelta, now: datetime) -> bool:
    """True if there is progress to write, so that the job needs another pass."""
    written = job.status.progress.updated_at
    newest = max((report.received_at for report in reports.values()), default=None)
    return newest is not None and (written is None or (newest > written and now - written >= interval))
