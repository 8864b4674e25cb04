"""Room: which nodes can take a pod of a job, and which trainings on several nodes may take them first.

Kubernetes gives nodes pod by pod, so two trainings that each get a part of the last nodes would wait for each other. A
training on several nodes therefore creates its pods only once a free node is there for each of them. Then either all of
its pods get their nodes within seconds, or it gives back what it got (`core.attempt.all_or_none`). It waits for no
training that cannot have all of its nodes now.

The operator knows what its own pods hold, and not what other pods do: a node that looks free may be full.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from holdfast.api.attempt import Attempt, AttemptState
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier, Toleration
from holdfast.api.trainer import Trainer
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.demand import amount_of, held_by, requested, too_small
from holdfast.core.observe.members import fresh_ranks, inherited, is_waiting, pods_by_rank
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.raw import LONG_AGO
from holdfast.core.observe.unscheduled import Shortage, find_shortage
from holdfast.core.observe.usable_nodes import has_labels, why_unusable

Amounts = Mapping[str, Fraction]  # resource -> how much of it
NOTHING: Final[Amounts] = MappingProxyType({})


class Shape(NamedTuple):
    """What decides which nodes a pod may use: equal shapes share their answers."""

    labels: frozenset[tuple[str, str]]
    tolerations: tuple[Toleration, ...]
    wanted: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, trainer: Trainer, tier: ProfileTier) -> "Shape":
        """The shape of each pod of a trainer on a tier."""
        wanted = frozenset(requested(trainer, tier).items())
        return cls(frozenset(tier.node_selector.items()), tuple(tier.tolerations), wanted)


@dataclass(frozen=True, slots=True)
class Ask:
    """The nodes that an attempt lacks. `begun`: its pods exist, so the scheduler may bind them.

    An attempt with one node asks while nodes have no room for its pod. No other one leaves a node to it (`until` is
    None), but trainings that hold a part learn that it waits.
    """

    namespace: str
    job: str
    uid: str
    since: datetime
    shape: Shape
    lacks: int
    closed: frozenset[str] = frozenset()  # nodes that it avoids, or on which the job has a pod already
    begun: bool = False
    not_before: datetime | None = None  # no pod of it is created before
    until: datetime | None = None  # of one that has begun: until then free nodes are left to it
    part: frozenset[str] = frozenset()  # nodes of its own pods, while others of them have none, and none is promised
    part_since: datetime | None = None  # when the first of its pods was created
    inherits: bool = False  # it took pods over from the attempt before it


@dataclass(frozen=True, slots=True)
class Grant:
    """An ask that may take its nodes now: any `lacks` of `nodes`."""

    ask: Ask
    nodes: frozenset[str]


class Held:
    """What the operator's pods hold: `amounts` has the sum of what those on a node ask for, by node.

    `known` has which of these nodes have room for one more pod, by shape, as far as a Room has found it out.
    """

    def __init__(self) -> None:
        self.amounts: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.known: dict[Shape, dict[str, bool]] = {}

    def add(self, node: str, requests: Mapping[str, str], sign: int = 1) -> None:
        """A pod that asks for this came to the node; with the sign -1, it is gone."""
        held = self.amounts[node]
        for what, amount in held_by(requests).items():
            held[what] += sign * amount
        if not held["pods"]:
            del self.amounts[node]
        for known in self.known.values():
            known.pop(node, None)

    def forget_known(self) -> None:
        """Forget which nodes have room: it does not hold for nodes that have changed."""
        self.known.clear()


def held_by_pods(pods: Iterable[PodView]) -> Held:
    """What these pods hold, as far as they have a node and have not ended."""
    held = Held()
    for pod in pods:
        if pod.node and not pod.ended:
            held.add(pod.node, pod.requests)
    return held


class Room:
    """The free nodes of the cluster, and the trainings on several nodes that want them.

    `held` has what the operator's pods on each node ask for. `turns` says when a training of each
    namespace last began: of two trainings that want the same nodes, the one goes first whose namespace has waited
    longer for a turn. No node is kept for the jobs `passed_over`, by UID: they had room, and did not begin.
    """

    def __init__(
        self,
        cluster: ClusterView,
        held: Held | None = None,
        asks: Iterable[Ask] = (),
        turns: Mapping[str, datetime] | None = None,
        passed_over: Set[str] = frozenset(),
    ) -> None:
        self._cluster = cluster
        self._held = held or Held()
        self._asks = tuple(asks)
        self._turns = turns or {}
        self._passed_over = passed_over
        self._free: dict[Shape, frozenset[str]] = {}
        self._ready: dict[Shape, list[datetime]] = {}  # since when free nodes are ready, the oldest first
        self._granted: tuple[datetime, datetime | None, tuple[Grant, ...]] | None = None
        self._left: dict[Ask, int] = {}  # of those that wait: how many nodes were left when it was their turn

    def free(self, shape: Shape) -> frozenset[str]:
        """The names of the nodes that can take one pod of this shape beside the operator's other pods."""
        if shape not in self._free:
            large = large_enough(self._cluster, shape)
            known = self._held.known.setdefault(shape, {})
            shared = self._held.amounts.keys() & large
            for name in shared - known.keys():
                known[name] = self.has_room(name, shape)
            self._free[shape] = large - {name for name in shared if not known[name]}
        return self._free[shape]

    def free_since(self, shape: Shape, count: int, own: Set[str]) -> datetime | None:
        """Since when `count` nodes have been there that are free, or in `own`; None if there are fewer.

        Where they are, Holdfast sees at no cost that a tier can give them.
        """
        free = self.free(shape)
        ready = _ready_since(self._cluster, shape)
        if shape not in self._ready:
            self._ready[shape] = [at for name, at in ready.items() if name in free]
        mine = (ready[name] for name in own - free if name in ready)
        found = sorted((*self._ready[shape][:count], *mine))
        return found[count - 1] if len(found) >= count else None

    def has_room(self, name: str, shape: Shape, promised: Amounts = NOTHING) -> bool:
        """True if the node has room for a pod of this shape beside the pods that it has and all that is `promised`.

        If the node does not say what it offers, one pod fills it.
        """
        offered, held = self._cluster.nodes[name].allocatable, self._held.amounts.get(name, NOTHING)
        if not (held or promised):
            return True
        return bool(offered) and all(
            amount_of(offered.get(what, "0")) - held.get(what, 0) - promised.get(what, 0) >= amount_of(amount)
            for what, amount in shape.wanted
        )

    def left_for(self, ask: Ask, now: datetime) -> int:
        """How many nodes are free for this ask at least, whichever nodes those take that go first.

        If they are enough, it may be less than that.
        """
        granted = self.granted(now)
        if (known := self._left.get(ask)) is not None:
            return known
        first = _Promises(self)
        for one in granted:
            if one.ask.uid != ask.uid and (one.ask.begun or self._order(one.ask) < self._order(ask)):
                first.add(one)
        return first.left(ask)

    def granted(self, now: datetime) -> tuple[Grant, ...]:
        """The asks that have begun and still wait for nodes, then those that may begin now, in their order.

        An ask that cannot have all of its nodes is passed over: nobody waits for it.
        """
        known = self._granted
        if known is not None and known[0] <= now and (known[1] is None or now < known[1]):
            return known[2]
        begun = [one for one in self._asks if one.begun and one.until is not None and now < one.until]
        found = _Promises(self)
        for one in begun:
            found.add(Grant(one, self.free(one.shape) - one.closed))
        waiting = [one for one in self._asks if not one.begun and self._waits(one, now)]
        self._left.clear()
        for one in sorted(waiting, key=self._order):
            self._left[one] = found.left(one)
            if self._left[one] >= one.lacks:
                found.add(Grant(one, self.free(one.shape) - one.closed))
        ends = [one.until for one in begun if one.until] + [
            one.not_before for one in self._asks if not one.begun and one.not_before and one.not_before > now
        ]
        self._granted = (now, min(ends, default=None), tuple(found.grants))
        return self._granted[2]

    @property
    def granted_at(self) -> datetime:
        """Since when `granted` has said what it says. It changes with the time."""
        return LONG_AGO if self._granted is None else self._granted[0]

    def _order(self, ask: Ask) -> tuple[datetime, datetime, str]:
        return self._turns.get(ask.namespace, LONG_AGO), ask.since, ask.uid

    def is_wanted(self, nodes: Iterable[str], uid: str, now: datetime) -> bool:
        """True if a training other than that of the job `uid` waits, and would have all of its nodes with these.

        Of those that took pods over, and got no others in time, only those that go before the job count: so one of them
        keeps its pods, and gets the nodes of the others.
        """
        names, mine = frozenset(nodes), min((self._order(one) for one in self._asks if one.uid == uid), default=None)
        return any(
            self._would_do(names, one)
            for one in self._asks
            if one.uid != uid and (self._waits(one, now) or (mine and _is_stuck(one, now) and self._order(one) < mine))
        )

    def _waits(self, ask: Ask, now: datetime) -> bool:
        """True if it would have its nodes now if it had room."""
        if ask.begun:
            return ask.until is None
        return not (ask.uid in self._passed_over or (ask.not_before and now < ask.not_before))

    def _would_do(self, names: frozenset[str], ask: Ask) -> bool:
        """True if the ask lacks some of these nodes, and no others but those of parts."""
        usable = (names & large_enough(self._cluster, ask.shape)) - ask.closed
        return bool(usable) and (len(usable) >= ask.lacks or self._with_parts(ask, usable) >= ask.lacks)

    def suffices_with_parts(self, ask: Ask) -> bool:
        """True if the ask would have all of its nodes with those of trainings that have a part, and get no new node."""
        return self._with_parts(ask) >= ask.lacks

    def others_suffice(self, ask: Ask, now: datetime) -> bool:
        """True if another training waits that would have all of its nodes so, some of which the ask could take."""
        usable = large_enough(self._cluster, ask.shape) - ask.closed
        return any(
            one.uid != ask.uid
            and not one.begun
            and self._waits(one, now)
            and self.suffices_with_parts(one)
            and not usable.isdisjoint(large_enough(self._cluster, one.shape) - one.closed)
            for one in self._asks
        )

    def _with_parts(self, ask: Ask, more: frozenset[str] = frozenset()) -> int:
        """How many nodes the ask would have with all parts that are given back for it, and with `more`."""
        every, by_job = self._parts
        own = by_job.get(ask.uid)
        back = frozenset(every if own is None else every - own) & large_enough(self._cluster, ask.shape)
        return len((more | back | self.free(ask.shape)) - ask.closed)

    @cached_property
    def _parts(self) -> tuple[Counter[str], dict[str, Counter[str]]]:
        """How many asks have a part on each node and would give it back: all of them, and those of each job, by UID."""
        every: Counter[str] = Counter()
        by_job: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self._asks:
            if one.part and not self._grows(one):
                every.update(one.part)
                by_job[one.uid].update(one.part)
        return every, by_job

    def must_give_back(self, ask: Ask, now: datetime) -> bool:
        """True if a part is of no use: another training waits for it, or only parts of others are missing.

        It is of use if a new node shows that an autoscaler completes it.
        """
        if not ask.part or self._grows(ask):
            return False
        alone = len(self.free(ask.shape) - ask.closed)
        return self.is_wanted(ask.part, ask.uid, now) or alone < ask.lacks <= self._with_parts(ask)

    def _grows(self, ask: Ask) -> bool:
        """True if a node that the ask could use was created after its pods."""
        since, newest = ask.part_since, _newest_node(self._cluster, ask.shape)
        return since is not None and newest is not None and newest > since


def _is_stuck(ask: Ask, now: datetime) -> bool:
    """True if the attempt took pods over, and had its time to get the others."""
    return ask.inherits and ask.until is not None and ask.until <= now


class _Promises:
    """Grants in their order, and how many nodes are left beside them."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._lacked = 0  # nodes of all grants
        self._amounts: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self._counted = 0  # grants of which the amounts are known
        self._contested: dict[Shape, frozenset[str]] = {}
        self._left: dict[tuple[Shape, frozenset[str]], int] = {}
        self.grants: list[Grant] = []

    def add(self, grant: Grant) -> None:
        """Promise the grant its nodes. Nobody knows which ones it takes."""
        self.grants.append(grant)
        self._lacked += grant.ask.lacks
        self._left.clear()

    def left(self, ask: Ask) -> int:
        """How many nodes have room for a pod of the ask at least, whichever nodes the grants take.

        A node that has room beside one pod of each grant that may take it is left. Of the other nodes, a grant takes at
        most as many as it lacks. This is not counted if enough are left even if no two trainings share a node.
        """
        nodes = self._room.free(ask.shape) - ask.closed
        if len(nodes) - self._lacked >= ask.lacks:
            return len(nodes) - self._lacked
        if (key := (ask.shape, ask.closed)) not in self._left:
            contested = self._contested_by(ask.shape) - ask.closed
            taken = sum(min(one.ask.lacks, len(one.nodes & contested)) for one in self.grants if contested)
            self._left[key] = len(nodes) - taken
        return self._left[key]

    def _contested_by(self, shape: Shape) -> frozenset[str]:
        """The nodes that have no room for a pod of this shape if all grants take them that may."""
        for (of, nodes), number in Counter((one.ask.shape, one.nodes) for one in self.grants[self._counted :]).items():
            self._contested.clear()
            for what, amount in of.wanted:
                promised = number * amount_of(amount)
                for name in nodes:
                    self._amounts[name][what] += promised
        self._counted = len(self.grants)
        if shape not in self._contested:
            known = self._amounts.keys() & self._room.free(shape)
            full = (name for name in known if not self._room.has_room(name, shape, self._amounts[name]))
            self._contested[shape] = frozenset(full)
        return self._contested[shape]


def large_enough(cluster: ClusterView, shape: Shape) -> frozenset[str]:
    """The names of the usable nodes that are large enough for a pod of this shape if nothing else is on them."""

    def derive() -> frozenset[str]:
        wanted = dict(shape.wanted)
        return frozenset(
            node.name
            for node in cluster.nodes.values()
            if has_labels(node, shape.labels) and not why_not(node, shape.tolerations, wanted)
        )

    return cluster.once(("large enough", shape), derive)


def why_not(node: NodeView, tolerations: Iterable[Toleration], wanted: Mapping[str, str]) -> str:
    """Why a pod with these tolerations that asks for `wanted` cannot use the node if it is empty; empty if it can.

    Labels are not checked. A node that does not say what it offers counts as large enough.
    """
    if reason := why_unusable(node, tolerations):
        return reason
    if not node.allocatable or (short := too_small(node.allocatable, wanted)) is None:
        return ""
    return f"{short} {node.allocatable.get(short, '0')} is less than {wanted[short]}"


def _ready_since(cluster: ClusterView, shape: Shape) -> dict[str, datetime]:
    """Since when each node that is large enough is ready, the oldest first.

    A node that was created after it became ready is a new machine under an old name.
    """

    def derive() -> dict[str, datetime]:
        nodes = [cluster.nodes[name] for name in large_enough(cluster, shape)]
        since = {one.name: max(one.ready_changed_at or LONG_AGO, one.created_at or LONG_AGO) for one in nodes}
        return dict(sorted(since.items(), key=lambda pair: pair[1]))

    return cluster.once(("ready since", shape), derive)


def _newest_node(cluster: ClusterView, shape: Shape) -> datetime | None:
    """When the newest of the nodes that are large enough was created; None if no node says it."""

    def derive() -> datetime | None:
        made = (cluster.nodes[name].created_at for name in large_enough(cluster, shape))
        return max(filter(None, made), default=None)

    return cluster.once(("newest node", shape), derive)


# --- asks, from the status and the pods of a job ----------------------------------------------------------------------


def asks_of(job: TrainingJob | None, pods: Iterable[PodView], config: OperatorConfig) -> tuple[Ask, ...]:
    """What the attempts of a job lack; `pods` may contain pods of an earlier job with its name."""
    if job is None or job.metadata.deletion_timestamp is not None:
        return ()
    current, mine = job.status.current, [pod for pod in pods if pod.job_uid == job.metadata.uid]
    waiting = [one for one in (current, job.status.successor) if one is not None and is_waiting(one)]
    if current is not None and current.nodes == 1 and any(map(lacks_room, pods_by_rank(mine, current).values())):
        waiting.append(current)
    return tuple(found for one in waiting if (found := ask_of(job, one, mine, config)).lacks)


def lacks_room(pod: PodView | None) -> bool:
    """True if the scheduler says that the nodes that a pod may use have no room for it."""
    return pod is not None and not pod.deleted_at and find_shortage(pod) is Shortage.ROOM


def ask_of(job: TrainingJob, attempt: Attempt, pods: Iterable[PodView], config: OperatorConfig) -> Ask:
    """What one attempt lacks; `pods` are those of its job."""
    alive = [pod for pod in pods if not pod.ended]
    own = pods_by_rank(alive, attempt)
    placed = {rank: pod.node for rank, pod in own.items() if pod.node}
    begun = attempt.state is AttemptState.ACQUIRING
    created = attempt.created_at or attempt.raised_at
    keeps = inherited(attempt) or any(pod.nominated for pod in own.values())
    return Ask(
        namespace=job.metadata.namespace or "",
        job=job.metadata.name,
        uid=job.metadata.uid,
        since=attempt.waits_since or attempt.raised_at,
        shape=Shape.of(job.spec.trainer, attempt.tier),
        lacks=sum(rank not in placed for rank in fresh_ranks(attempt)),
        closed=frozenset((*attempt.avoid_nodes, *(pod.node for pod in alive if pod.node))),
        begun=begun,
        not_before=_not_before(attempt, config),
        until=created + part_limit(attempt, config) if begun and attempt.nodes > 1 else None,
        part=frozenset(() if keeps else placed.values()),
        part_since=min((pod.created_at for pod in own.values() if pod.created_at), default=None),
        inherits=inherited(attempt) > 0,
    )


def _not_before(attempt: Attempt, config: OperatorConfig) -> datetime | None:
    """When the attempt may begin if there is room. Only while nodes are missing is a longer pause of use."""
    if attempt.retry_at is None or not attempt.given_back or attempt.refusals:
        return attempt.retry_at
    return min(attempt.retry_at, attempt.raised_at + config.backoff_limit)


def part_limit(attempt: Attempt, config: OperatorConfig) -> timedelta:
    """How long free nodes are left to an attempt whose pods exist.

    The scheduler needs seconds. An attempt that took over pods is waited for longer, since their programs start warm.
    """
    if not inherited(attempt):
        return config.placing_timeout
    return min(attempt.tier.acquire_timeout or config.unmatched_acquire_timeout, config.unmatched_acquire_timeout)
