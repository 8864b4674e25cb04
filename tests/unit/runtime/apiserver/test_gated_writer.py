import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.operator.fake_api_server import Clock, FakeClient, raw_pod

import holdfast
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate, NotLeadingError
from holdfast.serve.token_bucket import TokenBucket

POD = "/api/v1/namespaces/ns/pods/a-1-0"


class ClosingBucket(TokenBucket):
    """A bucket whose wait outlives the lease."""

    def __init__(self, gate: LeadershipGate) -> None:
        super().__init__(1, 1)
        self._gate = gate

    async def acquire(self, group: object = None, *, first: bool = False) -> None:
        self._gate.close()


async def test_only_the_leader_writes_and_everyone_reads() -> None:
    client, clock = FakeClient(), Clock()
    client.put(POD, raw_pod())
    gate = LeadershipGate(clock)
    writer = GatedWriter(client, gate, TokenBucket(100, 100, clock))
    with pytest.raises(NotLeadingError):
        await writer.write("PATCH", POD, {"metadata": {"labels": {"x": "y"}}})
    assert client.sent("PATCH") == []
    assert (await writer.get(POD))["metadata"]["uid"] == "p1"
    gate.keep_open(clock() + 10)
    assert writer.may_write
    written: dict[str, Any] = await writer.write("PATCH", POD, {"metadata": {"labels": {"x": "y"}}})
    assert written["metadata"]["labels"]["x"] == "y"


async def test_a_lease_that_is_lost_while_a_write_waits_stops_the_write() -> None:
    client, gate = FakeClient(), LeadershipGate(Clock())
    gate.keep_open(float("inf"))
    with pytest.raises(NotLeadingError):
        await GatedWriter(client, gate, ClosingBucket(gate)).write("POST", POD, {})
    assert client.calls == []


UNGATED = {
    "apiserver/client.py",  # what passes on the request
    "apiserver/gated_writer.py",  # the gate
    "apiserver/lease.py",  # one Lease, at fixed times
    "endpoint/metrics_review.py",  # reviews: serve/auth.py bounds them
    "endpoint/token_review.py",
    "endpoint/serving_ca.py",  # one Secret, at the first start
    "housekeeping/uninstall.py",  # a command that runs alone
}


def ungated_writes() -> Iterator[str]:
    """The modules that call `request` of a client with anything but "GET"."""
    root = Path(holdfast.__file__).parent / "runtime"
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "request":
                method = node.args[0]
                if not (isinstance(method, ast.Constant) and method.value == "GET"):
                    yield str(path.relative_to(root))


def test_all_writes_that_people_can_cause_take_turns() -> None:
    """Breaks if a module writes past the rate and the turns of namespaces."""
    assert set(ungated_writes()) == UNGATED
