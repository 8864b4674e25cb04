"""Orders on the control socket."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.control import Control
from holdfast_local.agent.errors import AgentError


class Node:
    """A node that records its orders."""

    state = "up"
    workers: tuple[str, ...] = ("a", "b")

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def reclaim(self, notice: float, kill_after: float) -> str:
        """Take the node away."""
        self.told.append((notice, kill_after))
        return "event-1"

    async def crash(self) -> bool:
        """Kill it."""
        raise AgentError("node n is gone: restore it first")

    async def partition(self) -> bool:
        """Cut it off."""
        self.told.append("partition")
        return True

    async def silence(self) -> bool:
        """Stop its reports."""
        self.told.append("silence")
        return True

    async def heal(self) -> bool:
        """Connect it again."""
        self.told.append("heal")
        return True

    async def restore(self) -> bool:
        """Bring it back."""
        return False


@pytest.fixture
def node() -> Node:
    """The only node."""
    return Node()


@pytest.fixture
def control(node: Node, tmp_path: Path) -> Control:
    """A control that does not listen."""
    config = AgentConfig(
        root=tmp_path, server="https://x", ca_cert=tmp_path, client_cert=tmp_path, client_key=tmp_path,
        kubelet_cert=tmp_path, kubelet_key=tmp_path, nodes=(),
    )  # fmt: skip
    return Control(config, {"n": node}, lambda: {"pid": 7})  # type: ignore[dict-item]


async def _ask(control: Control, **order: Any) -> dict[str, Any]:
    return await control.answer(json.dumps(order).encode())


async def test_good_orders(control: Control, node: Node) -> None:
    """Would break: the contract with `holdfast local`."""
    answer = await _ask(control, op="reclaim", node="n", noticeSeconds=1.5, killAfterSeconds=0)
    assert answer == {"ok": True, "event": "event-1"}
    await _ask(control, op="reclaim", node="n")
    assert node.told == [(1.5, 0.0), (30.0, 2.0)]
    for name in ("partition", "silence", "heal"):
        assert await _ask(control, op=name, node="n") == {"ok": True, "changed": True}
    assert node.told[2:] == ["partition", "silence", "heal"]
    assert await _ask(control, op="restore", node="n") == {"ok": True, "changed": False}
    assert await _ask(control, op="status") == {"ok": True, "pid": 7, "nodes": {"n": {"state": "up", "pods": 2}}}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"op": "crash", "node": "n"}, "node n is gone: restore it first"),
        ({"op": "crash", "node": "x"}, "'x' is not known; the nodes are n"),
        ({"op": "crash"}, "crash.node: Field required"),
        ({"op": "crash", "node": "n", "mode": "burn"}, "mode: Extra inputs"),
        ({"op": "reclaim", "node": "n", "noticeSeconds": -1}, "noticeSeconds"),
        ({"op": "reclaim", "node": "n", "seconds": 1}, "seconds: Extra inputs"),
        ({"op": "dance"}, "'reclaim', 'crash', 'partition', 'silence', 'heal', 'restore', 'status'"),
    ],
)
async def test_bad_orders_are_refused_with_words(control: Control, order: dict[str, Any], words: str) -> None:
    """Would break: a wrong order that seems to work."""
    answer = await _ask(control, **order)
    assert answer["ok"] is False
    assert words in answer["error"]


async def test_a_line_that_is_not_json_is_refused(control: Control) -> None:
    """Would break: one bad client ends the agent."""
    assert "JSON" in (await control.answer(b"{nope\n"))["error"]
