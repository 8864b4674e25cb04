"""Open orders, and the requests of pods that wait for them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from holdfast.core.decision import Order
from holdfast.serve.waiters import Waiters
from holdfast_protocol import orders as protocol

Delivered = Callable[[str, float], None]  # type of the order, seconds since it was opened


@dataclass(slots=True)
class _Open:
    order: Order
    since: float
    delivered: bool = False


class OrderBoard:
    """The open orders of every pod. All orders of a job are replaced at once: an order that is missing is withdrawn."""

    def __init__(self, now: Callable[[], datetime], clock: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._clock = clock
        self._open: dict[str, dict[int, _Open]] = {}  # pod UID -> order id
        self._pods: dict[str, frozenset[str]] = {}  # job UID -> pods with orders
        self._waiters = Waiters()
        self.delivered: Delivered = lambda kind, seconds: None

    def replace(self, job_uid: str, orders: Iterable[Order]) -> None:
        """Open exactly these orders for the pods of this job."""
        fresh: dict[str, dict[int, _Open]] = {}
        now = self._clock()
        for order in orders:
            old = self._open.get(order.pod_uid, {}).get(order.id)
            kept = _Open(order, old.since, old.delivered) if old else _Open(order, now)
            fresh.setdefault(order.pod_uid, {})[order.id] = kept
        for pod_uid in self._pods.pop(job_uid, frozenset()) - fresh.keys():
            self._open.pop(pod_uid, None)
        if fresh:
            self._pods[job_uid] = frozenset(fresh)
        for pod_uid, entries in fresh.items():
            news = entries.keys() - self._open.get(pod_uid, {}).keys()
            self._open[pod_uid] = entries
            if news:
                self._waiters.wake(pod_uid)

    def offer(self, job_uid: str, orders: Iterable[Order]) -> None:
        """Open these orders too; orders that were open stay open."""
        known = (entry.order for pod in self._pods.get(job_uid, ()) for entry in self._open.get(pod, {}).values())
        self.replace(job_uid, {(order.pod_uid, order.id): order for order in (*known, *orders)}.values())

    def keep_only(self, job_uids: Iterable[str]) -> None:
        """Withdraw the orders of jobs that are gone."""
        for job_uid in self._pods.keys() - set(job_uids):
            self.replace(job_uid, ())

    def open_for(self, pod_uid: str, after: int = 0) -> tuple[protocol.Order, ...]:
        """The open orders with an id above `after`, oldest first."""
        now, answer = self._now(), list[protocol.Order]()
        for _, entry in sorted(self._open.get(pod_uid, {}).items()):
            order = entry.order
            if order.id <= after:
                continue
            if not entry.delivered:
                entry.delivered = True
                self.delivered(order.type, self._clock() - entry.since)
            left = max(0.0, (order.deadline - now).total_seconds()) if order.deadline else 0.0
            answer.append(protocol.Order(order.id, order.type, round(left, 3), order.reason))
        return tuple(answer)

    async def wait(self, pod_uid: str, after: int, seconds: float) -> tuple[protocol.Order, ...]:
        """The same as `open_for`, after waiting up to `seconds` for a first order."""
        return await self._waiters.wait(pod_uid, lambda: self.open_for(pod_uid, after), seconds) or ()

    @property
    def waiting(self) -> int:
        """Number of requests that wait now."""
        return len(self._waiters)
