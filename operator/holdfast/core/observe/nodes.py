"""Small immutable views of the Kubernetes objects that decisions are made from.

They are parsed once per watch event from raw JSON. A field that no decision reads is not here, so two views are equal
exactly when a decision could not tell the objects apart.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self, TypeVar

from holdfast.core.observe.raw import Raw, _time

Derived = TypeVar("Derived")

TOGETHER = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint on a node."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. Heartbeats do not change it."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    ready_changed_at: datetime | None = None
    created_at: datetime | None = None
    maintenance: str = ""  # message of a condition that announces the end of the machine (AKS VMEventScheduled)
    termination_at: datetime | None = None  # Karpenter's hard deadline
    deleted_at: datetime | None = None

    @classmethod
    def parse(cls, raw: Raw) -> Self:
        """The view of a Node object."""
        meta, spec = raw["metadata"], raw.get("spec") or {}
        conditions = {c["type"]: c for c in (raw.get("status") or {}).get("conditions") or ()}
        ready, event = conditions.get("Ready") or {}, conditions.get("VMEventScheduled") or {}
        annotations = meta.get("annotations") or {}
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            labels=meta.get("labels") or {},
            taints=tuple(Taint(t["key"], t.get("value", ""), t.get("effect", "")) for t in spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            ready=ready.get("status") == "True",
            ready_changed_at=_time(ready.get("lastTransitionTime")),
            created_at=_time(meta.get("creationTimestamp")),
            maintenance=event.get("message", "") or "VMEventScheduled" if event.get("status") == "True" else "",
            termination_at=_time(annotations.get("karpenter.sh/nodeclaim-termination-timestamp")),
            deleted_at=_time(meta.get("deletionTimestamp")),
        )


class ClusterView:
    """All nodes at one moment. Build a new one when a node changes; what is derived is computed once."""

    def __init__(self, nodes: Iterable[NodeView] = ()) -> None:
        self.nodes: Mapping[str, NodeView] = {node.name: node for node in nodes}
        self._derived: dict[Hashable, Any] = {}

    @cached_property
    def silent(self) -> tuple[NodeView, ...]:
        """Nodes that are NotReady."""
        return tuple(node for node in self.nodes.values() if not node.ready)

    def outage(self, node: NodeView, now: datetime) -> bool:
        """True if this node fell silent together with half or more of all nodes: then it is the network, not the node.

        "Together" means at least two nodes within a minute of each other; a cluster of one node cannot tell. Nodes that
        have just come back count too, or the last ones to return from an outage would be taken for dead.
        """
        if node.ready_changed_at is None:
            return False
        at = node.ready_changed_at
        together = len(self.came_back(node, now)) + sum(
            other.ready_changed_at is not None and abs(other.ready_changed_at - at) <= TOGETHER for other in self.silent
        )
        return 2 * together >= len(self.nodes) and (together > 1 or len(self.nodes) == 1)

    def came_back(self, node: NodeView, now: datetime) -> tuple[datetime, ...]:
        """When nodes became Ready, in the last minute, that were there and not Ready after this one fell silent."""
        at = node.ready_changed_at
        return tuple(
            other.ready_changed_at
            for other in self.nodes.values()
            if at and other.ready and other.ready_changed_at and other.created_at
            if other.created_at < at < other.ready_changed_at and now - other.ready_changed_at < TOGETHER
        )

    def matching(self, selector: Mapping[str, str]) -> int:
        """How many nodes carry all labels of the selector."""
        key = frozenset(selector.items())
        return self.once(key, lambda: sum(key <= node.labels.items() for node in self.nodes.values()))

    def once(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """What `derive` says, asked only once for each key: it must depend on the key and these nodes alone."""
        if key not in self._derived:
            self._derived[key] = derive()
        found: Derived = self._derived[key]
        return found
