"""Nodes that may be to blame: which nodes new pods avoid, and how strictly.

A node whose hardware is said to be broken is never used. Otherwise the ends of attempts count: after one that the node
may have caused, pods prefer other nodes; after two they do not use it, unless most nodes of the tier look like that:
then the nodes are not the cause.

What one namespace says of a node counts only for its own jobs, because its programs may be the cause. It counts for all
if a second namespace says the same, once for each namespace, or if the cluster itself says it: no tenant can silence a
kubelet. That a rank was slow is only what a program says of itself: it never counts elsewhere.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeVar

from holdfast.api import names
from holdfast.api.attempt import AttemptRecord, EndReason
from holdfast.api.knowledge import MAX_FAULTS, MAX_FAULTY, NodeFault, NodeFaults
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import format_time, parse_time
from holdfast.core.capacity.knowledge import find_observation
from holdfast.core.observe.digest import digest
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.notices import FAULTY
from holdfast.core.observe.room import Shape, large_enough
from holdfast.core.observe.snapshot import Snapshot

EXPIRE: Final = timedelta(hours=24)
AVOIDED: Final = 2  # so many faults keep pods away, if enough other nodes are there
OF_THE_CLUSTER: Final = frozenset({EndReason.NODE_SILENT, FAULTY})
MAX_FORGIVEN: Final = 64
MAX_OF_NAMESPACE: Final = 2  # faults of a node that a profile keeps of one namespace
COUNTED: Final = OF_THE_CLUSTER | {EndReason.CONTAINER_LOST, EndReason.STALLED, EndReason.SLOW_RANK}
Faults = Mapping[str, tuple[NodeFault, ...]]  # by node

T = TypeVar("T")


def faults_of(job: TrainingJob, now: datetime) -> Faults:
    """What the attempts of one job say of their nodes."""
    found: dict[str, tuple[NodeFault, ...]] = {}
    for record in job.status.history:
        if record.node and _counts(record) and now - record.ended_at < EXPIRE:
            found[record.node] = (*found.get(record.node, ()), _fault(job, record))
    return found


def _counts(record: AttemptRecord) -> bool:
    """True if the node may be to blame. With several nodes, all programs stand still together: what they did has to
    show which node was the cause.
    """
    return record.reason in COUNTED and (
        record.reason != EndReason.STALLED or record.rank is None or record.node_at_fault
    )


def _fault(job: TrainingJob, record: AttemptRecord) -> NodeFault:
    return NodeFault(
        reason=record.reason,
        at=record.ended_at,
        namespace=digest(job.metadata.namespace),
        job=digest(job.metadata.uid),
        attempt=record.number,
    )


def merge(several: Iterable[Faults], forgiven: Mapping[str, datetime], cluster: ClusterView, now: datetime) -> Faults:
    """All of them together: each attempt once, without what is too old or forgiven, and of present machines only."""
    merged: dict[str, dict[tuple[str, int], NodeFault]] = {}
    for faults in several:
        for node, found in faults.items():
            for fault in found:
                if _still_counts(fault, cluster.nodes.get(node), forgiven.get(node), now):
                    merged.setdefault(node, {})[fault.job, fault.attempt] = fault
    return {node: tuple(sorted(found.values(), key=_age)) for node, found in merged.items()}


def _age(fault: NodeFault) -> tuple[datetime, str, int]:
    return fault.at, fault.job, fault.attempt


def _fairly(items: Iterable[T], fault_of: Callable[[T], NodeFault]) -> Iterator[tuple[int, T]]:
    """Items in the order in which they are worth keeping, each with its turn.

    First what the cluster says, in turn 0; then the newest of each namespace, in turn 1; then the second newest, and so
    on. So no namespace can push out what the cluster says, or all that another namespace says.
    """
    turns: Counter[str] = Counter()
    found: list[tuple[int, T]] = []
    for item in sorted(items, key=lambda one: _age(fault_of(one)), reverse=True):
        fault = fault_of(item)
        if fault.reason in OF_THE_CLUSTER:
            found.append((0, item))
        else:
            turns[fault.namespace] += 1
            found.append((turns[fault.namespace], item))
    yield from sorted(found, key=lambda one: one[0])


def _worth_keeping(faults: Sequence[NodeFault]) -> list[NodeFault]:
    """At most MAX_FAULTS of a node's faults, those worth keeping first."""
    return [one for turn, one in _fairly(faults, lambda fault: fault) if turn <= MAX_OF_NAMESPACE][:MAX_FAULTS]


def _still_counts(fault: NodeFault, node: NodeView | None, forgiven: datetime | None, now: datetime) -> bool:
    is_same = node is not None and (node.created_at is None or node.created_at <= fault.at)
    return is_same and _is_held(fault, forgiven, now)


def _is_held(fault: NodeFault, forgiven: datetime | None, now: datetime) -> bool:
    return now - fault.at < EXPIRE and (forgiven is None or fault.at > forgiven)


def as_of(profile: CapacityProfile, now: datetime) -> CapacityProfile:
    """The profile without faults of nodes that are too old by now, or were forgiven after its status was written."""
    forgiven = forgiven_nodes(profile)
    kept = (
        (one.node, tuple(fault for fault in one.faults if _is_held(fault, forgiven.get(one.node), now)))
        for one in profile.status.faulty_nodes
    )
    nodes = tuple(NodeFaults(node=node, faults=faults) for node, faults in kept if faults)
    return profile.model_copy(update={"status": profile.status.model_copy(update={"faulty_nodes": nodes})})


def of_profile(
    profile: CapacityProfile, jobs: Iterable[TrainingJob], cluster: ClusterView, now: datetime
) -> tuple[NodeFaults, ...]:
    """What a profile tells its jobs of nodes: at most MAX_FAULTY of them, and MAX_FAULTS faults of each."""
    told = [_told(profile), *(faults_of(job, now) for job in jobs)]
    merged = merge(told, forgiven_nodes(profile), cluster, now)
    kept = {node: _worth_keeping(faults) for node, faults in sorted(merged.items())}
    nodes = [node for _, node in _fairly(kept, lambda node: kept[node][0])][:MAX_FAULTY]
    return tuple(NodeFaults(node=node, faults=tuple(sorted(kept[node], key=_age))) for node in sorted(nodes))


def _told(profile: CapacityProfile) -> Faults:
    return {one.node: one.faults for one in profile.status.faulty_nodes}


def forgiven_nodes(profile: CapacityProfile) -> dict[str, datetime]:
    """Until when the faults of nodes are forgiven; an annotation that cannot be read forgives nothing."""
    try:
        given = json.loads(profile.metadata.annotations.get(names.ANNOTATION_FORGIVEN, "{}"))
        return {str(node): parse_time(at) for node, at in given.items()} if isinstance(given, dict) else {}
    except ValueError:  # a ScalarError is one
        return {}


def forgive(profile: CapacityProfile, node: str, now: datetime) -> str:
    """The annotation that forgives this node too: the newest MAX_FORGIVEN nodes whose faults could still count."""
    before = ((name, at) for name, at in forgiven_nodes(profile).items() if name != node and now - at < EXPIRE)
    kept = sorted(before, key=lambda one: one[1])[-MAX_FORGIVEN + 1 :]
    return json.dumps({name: format_time(at) for name, at in (*kept, (node, now))})


def suspects(snapshot: Snapshot) -> dict[str, int]:
    """How many faults count against nodes, for this job; nodes without one are left out."""
    profile, now = snapshot.profile, snapshot.now
    told = [_told(profile)] if profile else []
    forgiven = forgiven_nodes(profile) if profile else {}
    found = merge([*told, faults_of(snapshot.job, now)], forgiven, snapshot.cluster, now)
    home = digest(snapshot.job.metadata.namespace)
    counts = {node: count(faults, home) for node, faults in found.items()}
    return {node: number for node, number in counts.items() if number}


def count(faults: Sequence[NodeFault], home: str) -> int:
    """How many of a node's faults count for jobs of the namespace with the digest `home`.

    Faults reported by the cluster or by `home`, plus one per other namespace, if two namespaces report the same reason.
    """
    said = {(one.reason, one.namespace) for one in faults if one.reason not in OF_THE_CLUSTER}
    by_reason = Counter(reason for reason, _ in said if reason != EndReason.SLOW_RANK)
    others = {where for reason, where in said if where != home and by_reason[reason] > 1}
    return len(others) + sum(one.namespace == home or one.reason in OF_THE_CLUSTER for one in faults)


def standing(faults: Sequence[NodeFault], namespace: str) -> Literal["avoided", "last choice"] | None:
    """How pods of a namespace treat a node with these faults; None if no fault counts for them."""
    number = count(faults, digest(namespace))
    if number >= AVOIDED:
        return "avoided"
    return "last choice" if number else None


def to_avoid(snapshot: Snapshot, tier: ProfileTier) -> tuple[str, ...]:
    """The nodes that new pods on this tier do not use: the broken ones, and those with too many faults.

    The latter are used if fewer than half of the nodes that are large enough would be left, or fewer than the job needs
    can take its pods. An autoscaler that is known brings others in place of those that are full.
    """
    cluster, trainer = snapshot.cluster, snapshot.job.spec.trainer
    matching = _matching(cluster, tier)
    broken = [node.name for node in matching if node.fault]
    bad = {node for node, number in suspects(snapshot).items() if number >= AVOIDED}
    if not bad:
        return tuple(broken)
    whole = [node.name for node in matching if not node.fault]
    usable = large_enough(cluster, Shape.of(trainer, tier))
    is_billed = find_observation(tier, snapshot.job.status.tiers, snapshot.profile) == "Billed"
    open_ones = usable if is_billed else snapshot.nodes_for(tier)
    if len(usable - bad) < len(usable) / 2 or len(open_ones - bad) < trainer.nodes:
        return tuple(broken)
    return (*broken, *(name for name in whole if name in bad))


def _matching(cluster: ClusterView, tier: ProfileTier) -> tuple[NodeView, ...]:
    """The nodes with the tier's labels, by name."""
    labels = frozenset(tier.node_selector.items())

    def derive() -> tuple[NodeView, ...]:
        found = (node for node in cluster.nodes.values() if labels <= node.labels.items())
        return tuple(sorted(found, key=lambda node: node.name))

    return cluster.once(("matching", labels), derive)
