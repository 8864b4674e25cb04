"""Launchers of trainings on several nodes: what they told last, and what they are to do.

A launcher says whether its program runs or it is ready for the next one. The answer follows from the newest attempt in
status, so it is the same from every operator, and a launcher that asks again gets it again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from holdfast.core.decision import WorldOrder
from holdfast.core.observe.members import MemberReport
from holdfast.serve.body import MemberBody
from holdfast.serve.reports import JobName, Wake
from holdfast.serve.waiters import Waiters

WAIT: Mapping[str, Any] = {"do": "wait"}


class MemberBook:
    """Reports of launchers and orders for them, by pod UID. `wake` is called when a decision may depend on a report."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._reports: dict[str, MemberReport] = {}
        self._orders: dict[str, WorldOrder] = {}
        self._pods: dict[str, frozenset[str]] = {}  # job UID -> pods with orders
        self._waiters = Waiters()

    def of(self, pod_uids: Iterable[str]) -> Mapping[str, MemberReport]:
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

    def receive(self, job: JobName, body: MemberBody, now: datetime) -> None:
        """Store what a launcher told. A call that is older than the newest one, and arrives later, changes nothing."""
        verdict = body.verdict_text
        before = self._reports.get(body.pod_uid)
        is_ready = body.state == "ready"
        if before and (body.attempt, is_ready, bool(verdict)) < (before.attempt, before.ready, bool(before.verdict)):
            return
        report = MemberReport(
            attempt=body.attempt,
            ready=is_ready,
            received_at=now,
            port=body.port,
            verdict=verdict,
            ended_at=now if verdict else None,
            imports=body.imports or (before.imports if before else ()),
        )
        if before and verdict and (before.attempt, before.verdict) == (report.attempt, verdict):
            report = replace(report, ended_at=before.ended_at)
        self._reports[body.pod_uid] = report
        is_news = before is None or replace(before, received_at=now, asked_at=None) != report
        if is_news or (before is not None and not before.is_current(now)):
            self._wake(job, True)

    async def answer(self, body: MemberBody, seconds: float) -> Mapping[str, Any]:
        """What the launcher is to do, after waiting up to `seconds` for something to do."""
        return await self._waiters.wait(body.pod_uid, lambda: self._news_for(body), seconds) or WAIT

    def _news_for(self, body: MemberBody) -> Mapping[str, Any] | None:
        known = self._reports.get(body.pod_uid)
        is_asked = known is not None and known.asked_at is not None
        return self._order_for(body) or (WAIT if is_asked else None)

    def _order_for(self, body: MemberBody) -> Mapping[str, Any] | None:
        order = self._orders.get(body.pod_uid)
        if order is None or body.attempt >= order.attempt:
            return None
        if body.state == "running":
            return {"do": "regroup", "attempt": order.attempt} | ({"final": True} if order.leave else {})
        if order.leave:
            return {"do": "leave"}
        if order.world is None:
            return None
        return {
            "do": "start",
            "attempt": order.attempt,
            "address": order.world.address,
            "port": order.world.port,
            "predecessor": order.predecessor,
        }

    @property
    def waiting(self) -> int:
        """Number of launchers that wait now."""
        return len(self._waiters)
