"""Launchers of trainings on several nodes: what they told last, and what they are to do.

A launcher says whether its program runs or it is ready for the next one. The answer follows from the newest attempt in
status, so it is the same from every operator, and a launcher that asks again gets it again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from holdfast.core.decision import WorldOrder
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.verdict import trusted
from holdfast.serve.reports import JobName, Wake
from holdfast.serve.waiters import Waiters
from holdfast_protocol.member import LEAVE, READY, REGROUP, RUNNING, START, WAIT, MemberOrder, MemberReport

NOTHING = MemberOrder(WAIT)


class MemberBook:
    """Reports of launchers and orders for them, by pod UID. `wake` is called when a decision may depend on a report."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._reports: dict[str, LauncherView] = {}
        self._orders: dict[str, WorldOrder] = {}
        self._pods: dict[str, frozenset[str]] = {}  # job UID -> pods with orders
        self._waiters = Waiters()

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, LauncherView]:
        """The newest report of each of these pods' launchers."""
        if not self._reports:
            return {}
        return {uid: report for uid in pod_uids if (report := self._reports.get(uid))}

    def keep_only(self, pod_uids: Iterable[str], job_uids: Iterable[str]) -> None:
        """Forget all other pods and jobs."""
        for uid in self._reports.keys() - set(pod_uids):
            del self._reports[uid]
        for job in self._pods.keys() - set(job_uids):
            self.replace(job, ())

    def replace(self, job_uid: str, worlds: Iterable[WorldOrder]) -> None:
        """Let exactly these orders count for the pods of this job. They must be in status already."""
        fresh = {uid: world for world in worlds for uid in world.ranks}
        for uid in self._pods.pop(job_uid, frozenset()) - fresh.keys():
            self._orders.pop(uid, None)
        if fresh:
            self._pods[job_uid] = frozenset(fresh)
        for uid, world in fresh.items():
            if self._orders.get(uid) != world:
                self._orders[uid] = world
                self._waiters.wake(uid)

    def ask(self, pod_uids: Iterable[str], now: datetime) -> None:
        """Answer the open calls of these launchers: their next call shows that they live."""
        for uid in pod_uids:
            known = self._reports.get(uid)
            if known is not None and known.asked_at is None:
                self._reports[uid] = replace(known, asked_at=now)
                self._waiters.wake(uid)

    def receive(self, job: JobName, told: MemberReport, now: datetime) -> None:
        """Store what a launcher told. A call that is older than the newest one, and arrives later, changes nothing."""
        before = self._reports.get(told.pod_uid)
        is_ready = told.state == READY
        verdict = trusted(told.verdict) if told.verdict and is_ready else None
        if before and (told.attempt, is_ready, bool(verdict)) < (before.attempt, before.ready, bool(before.verdict)):
            return
        report = LauncherView(
            attempt=told.attempt,
            ready=is_ready,
            received_at=now,
            port=told.port,
            verdict=verdict,
            ended_at=now if verdict else None,
            imports=told.imports or (before.imports if before else ()),
        )
        if before and verdict and (before.attempt, before.verdict) == (report.attempt, verdict):
            report = replace(report, ended_at=before.ended_at)
        self._reports[told.pod_uid] = report
        is_news = before is None or replace(before, received_at=now, asked_at=None) != report
        if is_news or (before is not None and not before.is_current(now)):
            self._wake(job, True)

    async def answer(self, told: MemberReport, seconds: float) -> MemberOrder:
        """What the launcher is to do, after waiting up to `seconds` for something to do."""
        return await self._waiters.wait(told.pod_uid, lambda: self._news_for(told), seconds) or NOTHING

    def _news_for(self, told: MemberReport) -> MemberOrder | None:
        known = self._reports.get(told.pod_uid)
        is_asked = known is not None and known.asked_at is not None
        return self._order_for(told) or (NOTHING if is_asked else None)

    def _order_for(self, told: MemberReport) -> MemberOrder | None:
        order = self._orders.get(told.pod_uid)
        if order is None or told.attempt >= order.attempt:
            return None
        if told.state == RUNNING:
            return MemberOrder(REGROUP, order.attempt, final=order.leave)
        if order.leave:
            return MemberOrder(LEAVE)
        if order.world is None:
            return None
        return MemberOrder(START, order.attempt, order.world.address, order.world.port, order.predecessor)

    @property
    def waiting(self) -> int:
        """Number of launchers that wait now."""
        return len(self._waiters)
