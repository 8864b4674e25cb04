"""Small immutable views of nodes, and of all nodes of the cluster.

A view is parsed from raw JSON once per watch event. It has only fields that some decision reads, so two views are equal
exactly if no decision can tell the objects apart.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, Self, TypeVar

from holdfast.core.observe.raw import Raw, parse_optional_time

Derived = TypeVar("Derived")

TOGETHER = timedelta(seconds=60)
# Conditions by which agents of clouds say that an accelerator is broken, also by its XID errors: the node monitoring
# agent of EKS, the node problem detectors of AKS and of Nebius.
KNOWN_CONDITIONS = frozenset(
    (
        ("AcceleratedHardwareReady", "False"),
        ("GPUMissing", "True"),
        ("XIDErrors", "True"),
        ("NVLinkStatusInactive", "True"),
        ("NebiusGPUError", "True"),
    )
)


@dataclass(frozen=True, slots=True)
class FaultSigns:
    """What says that a node's hardware is broken, while the node itself stays.

    `conditions` are types and statuses of conditions, by default those that clouds write; `taints` are keys of taints.
    """

    conditions: frozenset[tuple[str, str]] = KNOWN_CONDITIONS
    taints: frozenset[str] = frozenset()

    def find(self, raw: Raw) -> str:
        """What a Node object says of a fault; empty if it says nothing."""
        for condition in (raw.get("status") or {}).get("conditions") or ():
            kind, state = condition.get("type", ""), condition.get("status", "")
            if (kind, state) in self.conditions:
                words = condition.get("reason") or condition.get("message") or ""
                return f"{kind}={state}" + (f": {words}" if words else "")
        taints = (raw.get("spec") or {}).get("taints") or ()
        return next((f"taint {taint['key']}" for taint in taints if taint["key"] in self.taints), "")


KNOWN_SIGNS = FaultSigns()
DISRUPTED: Final = "karpenter.sh/disrupted"  # the taint of a node that Karpenter takes away
_TERMINATION: Final = "karpenter.sh/nodeclaim-termination-timestamp"


def termination_of(raw: Raw) -> datetime | None:
    """When the machine of a NodeClaim, or of a Node, is ended in any case; None if the object does not say it.

    Karpenter writes it on NodeClaims only. On Nodes other programs may, such as the local cluster.
    """
    return parse_optional_time((raw["metadata"].get("annotations") or {}).get(_TERMINATION))


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint on a node."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. A heartbeat does not change it."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    ready_changed_at: datetime | None = None
    created_at: datetime | None = None
    maintenance: str = ""  # message of a condition that announces the end of the machine (AKS VMEventScheduled)
    claim: str = ""  # name of Karpenter's NodeClaim
    termination_at: datetime | None = None  # when the machine is ended in any case, as the node or its claim says
    deleted_at: datetime | None = None
    fault: str = ""  # why its hardware is broken, in words
    allocatable: Mapping[str, str] = field(default_factory=dict)  # what it offers to pods; empty if it does not say so

    @property
    def is_disrupted(self) -> bool:
        """True if Karpenter takes the node away."""
        return self.deleted_at is not None or any(taint.key == DISRUPTED for taint in self.taints)

    @classmethod
    def parse(cls, raw: Raw, faults: FaultSigns = KNOWN_SIGNS) -> Self:
        """The view of a Node object. `faults`: what says that the hardware is broken."""
        meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        ready, event = conditions.get("Ready") or {}, conditions.get("VMEventScheduled") or {}
        owners = (o for o in meta.get("ownerReferences") or () if o.get("apiVersion", "").startswith("karpenter.sh/"))
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            labels=meta.get("labels") or {},
            taints=tuple(Taint(t["key"], t.get("value", ""), t.get("effect", "")) for t in spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            ready=ready.get("status") == "True",
            ready_changed_at=parse_optional_time(ready.get("lastTransitionTime")),
            created_at=parse_optional_time(meta.get("creationTimestamp")),
            maintenance=event.get("message", "") or "VMEventScheduled" if event.get("status") == "True" else "",
            claim=next((owner["name"] for owner in owners if owner.get("kind") == "NodeClaim"), ""),
            termination_at=termination_of(raw),
            deleted_at=parse_optional_time(meta.get("deletionTimestamp")),
            fault=faults.find(raw)[:200],
            allocatable=status.get("allocatable") or {},
        )


class ClusterView:
    """All nodes at one moment. A change of a node makes a new view. What is derived from the nodes is computed once."""

    def __init__(self, nodes: Iterable[NodeView] = ()) -> None:
        self.nodes: Mapping[str, NodeView] = {node.name: node for node in nodes}
        self._derived: dict[Hashable, Any] = {}

    @cached_property
    def silent(self) -> tuple[NodeView, ...]:
        """Nodes that are NotReady."""
        return tuple(node for node in self.nodes.values() if not node.ready)

    @cached_property
    def _silent_since(self) -> list[datetime]:
        """When nodes that are NotReady became so, in order: a decision asks about each silent node of a training."""
        return sorted(node.ready_changed_at for node in self.silent if node.ready_changed_at)

    @cached_property
    def _ready_since(self) -> list[tuple[datetime, datetime]]:
        """When nodes that are Ready became so, in order, each with the time of its creation."""
        nodes = self.nodes.values()
        return sorted(
            (n.ready_changed_at, n.created_at) for n in nodes if n.ready and n.ready_changed_at and n.created_at
        )

    def outage(self, node: NodeView, now: datetime) -> bool:
        """True if at least half of all nodes fell silent together with this one: then the network failed, not the node.

        "Together" means within a minute, and at least two nodes. A cluster with one node cannot tell, and counts as an
        outage. Nodes that have just come back count too: otherwise the last nodes to return from an outage would count
        as lost.
        """
        if node.ready_changed_at is None:
            return False
        at, silent = node.ready_changed_at, self._silent_since
        around = bisect_right(silent, at + TOGETHER) - bisect_left(silent, at - TOGETHER)
        together = len(self.came_back(node, now)) + around
        return 2 * together >= len(self.nodes) and (together > 1 or len(self.nodes) == 1)

    def came_back(self, node: NodeView, now: datetime) -> tuple[datetime, ...]:
        """When nodes became Ready in the last minute that existed, and were not Ready, after this node fell silent."""
        at = node.ready_changed_at
        if at is None:
            return ()
        after = bisect_right(self._ready_since, at, key=lambda times: times[0])
        return tuple(since for since, created in self._ready_since[after:] if created < at and now - since < TOGETHER)

    def matching(self, selector: Mapping[str, str]) -> int:
        """How many nodes carry all labels of the selector."""
        key = frozenset(selector.items())
        return self.once(key, lambda: sum(key <= node.labels.items() for node in self.nodes.values()))

    def once(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """The result of `derive`, computed once per key. It must depend only on the key and these nodes."""
        if key not in self._derived:
            self._derived[key] = derive()
        found: Derived = self._derived[key]
        return found
