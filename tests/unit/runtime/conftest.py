"""An executor and what it stands on, against the fake API server."""

from dataclasses import dataclass, field

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient

from holdfast.core.decision import Order
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.endpoint.ca_configmap import CaConfigMap
from holdfast.runtime.informer.cache import Cache
from holdfast.runtime.loop.events import EventRecorder
from holdfast.runtime.loop.execute import Executor
from holdfast.serve.members import MemberBook
from holdfast.serve.token_bucket import TokenBucket


@dataclass
class Orders:
    """Remembers what was put up."""

    seen: list[tuple[str, tuple[Order, ...]]] = field(default_factory=list)
    offered: list[tuple[str, tuple[Order, ...]]] = field(default_factory=list)

    def replace(self, job_uid: str, orders: tuple[Order, ...]) -> None:
        self.seen.append((job_uid, orders))

    def offer(self, job_uid: str, orders: tuple[Order, ...]) -> None:
        self.offered.append((job_uid, orders))


class Bench:
    """Everything that writes, with a fake server behind it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.client = FakeClient()
        self.cache = Cache()
        self.gate = LeadershipGate(self.clock)
        self.gate.keep_open(float("inf"))
        self.writer = GatedWriter(self.client, self.gate, TokenBucket(1e6, 1e6, self.clock))
        self.board = Orders()
        self.events = EventRecorder(self.writer, "me", self.clock, self.clock.now)
        self.executor = Executor(
            writer=self.writer,
            cache=self.cache,
            board=self.board,
            members=MemberBook(lambda job, urgent: None),
            events=self.events,
            ca=CaConfigMap(self.writer, "CERT", self.clock),
            now=self.clock.now,
            clock=self.clock,
        )

    def verbs(self) -> list[str]:
        """Every request but reads, as `METHOD last/part`."""
        return [f"{m} {p.rpartition('namespaces/ns/')[2]}" for m, p, _ in self.client.calls if m not in ("GET", "LIST")]


@pytest.fixture
def bench() -> Bench:
    return Bench()
