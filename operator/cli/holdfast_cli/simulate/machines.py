"""Nodes of the virtual cluster: when each is up, and when it goes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.api.profile import Tier
from holdfast.core.observe.nodes import NodeView, Taint
from holdfast_cli.simulate.durations import ZERO
from holdfast_cli.simulate.traces import Trace


@dataclass(frozen=True, slots=True)
class Watched:
    """What a market may know of the job: if it is on this market, and how much of its changeover is still ahead."""

    on: bool
    changing: float


NOTICE = Taint("aws-node-termination-handler/spot-itn", effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Spell:
    """When a node is up: from `start` to `end`, in time since the beginning; without `end`, for ever.

    A taint announces the end `notice` before it, as in clouds. With a notice of 0 the node goes without one.
    """

    start: timedelta = ZERO
    end: timedelta | None = None
    notice: timedelta = ZERO

    def __post_init__(self) -> None:
        if self.notice < ZERO or self.start < ZERO or (self.end is not None and self.end <= self.start):
            raise ValueError(f"a spell must end after its start, and no time may be negative; got {self}")


def spells(trace: Trace, start: int = 0, *, notice: timedelta = ZERO) -> Iterator[Spell]:
    """The spells of a trace in which Spot is up, from its step `start` on. Times count from there."""
    step, gap = start, timedelta(seconds=trace.gap)
    while step < len(trace):
        end = trace.next_change(step)
        if trace.is_up(step):
            yield Spell((step - start) * gap, (end - start) * gap, notice)
        step = end


class Machine(ABC):
    """A node that comes and goes; one pod fits on it.

    `up`: a pod can get it, `since` a given time. With `stands`, there is a Node object while it is up. Otherwise an
    autoscaler creates the Node object when a pod asks, and removes it after it was idle for `linger`.
    """

    def __init__(self, tier: Tier, name: str, *, stands: bool = True, linger: timedelta = ZERO) -> None:
        self.tier = tier
        self.name = name
        self.stands = stands
        self.linger = linger
        self.up = False
        self.since: datetime | None = None
        self.view: NodeView | None = None
        self.next_at: datetime | None = None
        self.idle_since: datetime | None = None
        self._made = 0

    @abstractmethod
    def begin(self, now: datetime) -> None:
        """Start the machine with the world."""

    @abstractmethod
    def turn(self, now: datetime, watched: Watched) -> bool:
        """Go on to `now`, which is `next_at`; True if anything has changed."""

    def bring(self, now: datetime) -> NodeView:
        """The Node object, for a pod that gets the node now."""
        self.idle_since = None
        return self.view or self._make(now)

    def leave(self, now: datetime) -> None:
        """The pod on the node has ended."""
        self.idle_since = now

    @property
    def idle_until(self) -> datetime | None:
        """When an autoscaler removes the idle node; None if no autoscaler created it or it is not idle."""
        if self.stands or self.view is None or self.idle_since is None:
            return None
        return self.idle_since + self.linger

    def remove(self) -> None:
        """The Node object is removed."""
        self.view = self.idle_since = None

    def _rise(self, now: datetime) -> None:
        self.up, self.since = True, now
        if self.stands:
            self._make(now)

    def _fall(self) -> None:
        self.up, self.since = False, None
        self.remove()

    def _make(self, now: datetime) -> NodeView:
        self._made += 1
        name = f"{self.name}-{self._made}"  # a node that comes back is another machine
        self.view = NodeView(
            name=name, uid=f"u-{name}", labels=self.tier.node_selector, ready_changed_at=now, created_at=now
        )
        return self.view

    def _announce(self) -> bool:
        """Announce the end of the node. Always True: something has changed."""
        self.up = False  # no new pod gets it
        if self.view is not None:
            view = self.view
            self.view = NodeView(
                name=view.name,
                uid=view.uid,
                labels=view.labels,
                taints=(NOTICE,),
                ready_changed_at=view.ready_changed_at,
                created_at=view.created_at,
            )
        return True


class Recorded(Machine):
    """A node that comes and goes as its spells say."""

    def __init__(
        self,
        tier: Tier,
        name: str,
        known: Iterable[Spell],
        *,
        stands: bool = True,
        linger: timedelta = ZERO,
    ) -> None:
        super().__init__(tier, name, stands=stands, linger=linger)
        self._spells = iter(known)
        self._spell: Spell | None = None
        self._origin: datetime | None = None

    def begin(self, now: datetime) -> None:
        """Start the machine with the world."""
        self._origin = now
        self._next_spell()
        while self.next_at is not None and self.next_at <= now:
            self.turn(now, Watched(on=False, changing=0))

    def turn(self, now: datetime, watched: Watched) -> bool:
        """The node comes up, is announced to go, or goes."""
        spell, origin = self._spell, self._origin
        if spell is None or origin is None:
            return False
        if spell.end is not None and now >= origin + spell.end:
            self._fall()
            self._next_spell()
            return True
        last = None if spell.end is None else max(spell.end - spell.notice, spell.start)
        if last is None or now < origin + last:
            self._rise(now)
            self.next_at = None if last is None else origin + last
            return True
        self.next_at = origin + (spell.end or ZERO)
        return self._announce()

    def _next_spell(self) -> None:
        self._spell = next(self._spells, None)
        self.next_at = None if self._spell is None or self._origin is None else self._origin + self._spell.start
