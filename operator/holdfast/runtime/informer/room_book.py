"""The room of the cluster, kept up to date: what pods hold on each node, and which trainings wait for nodes."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.members import WAITING
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.raw import LONG_AGO
from holdfast.core.observe.room import Ask, Held, Room, asks_of, lacks_room

REMEMBERED: Final = timedelta(hours=1)  # how long a turn counts
MAX_SHAPES: Final = 100  # of pods, for which is kept what nodes have room
PASSED_OVER: Final = timedelta(minutes=1)  # how long no node is kept for a job that had room, and did not begin

Name = tuple[str, str]  # namespace and name of a job
Waiting = tuple[str, datetime]  # UID of a job, and since when its attempt waits
Read = Callable[[Name], tuple[TrainingJob | None, Iterable[PodView]]]


class RoomBook:
    """Makes a new Room only after something has changed. What is known of nodes that have not changed is kept."""

    def __init__(self, read: Read, config: OperatorConfig) -> None:
        self._read = read
        self._config = config
        self._held = Held()
        self._asks: dict[Name, tuple[Ask, ...]] = {}  # of the jobs that wait for nodes
        self._changed: set[Name] = set()  # jobs whose asks are to be read again
        self._turns: dict[str, datetime] = {}  # namespace -> when a training of it last began, if it is not long ago
        self._turns_since = LONG_AGO  # turns before that are forgotten
        self._granted: dict[Waiting, datetime] = {}  # since when one that waits has had room
        self._passed_over: dict[Waiting, datetime] = {}  # those that had room, and did not begin, and until when
        self._room: Room | None = None
        self._decided: tuple[Room, datetime] | None = None  # what those with a part were decided by the last time
        self._decided_at = LONG_AGO

    def note_job(self, key: Name, job: TrainingJob | None) -> None:
        """Note the newest version of a job, or None if it is gone."""
        attempts = (job.status.current, job.status.successor) if job else ()
        waits = any(one is not None and one.state in WAITING for one in attempts)
        for one in attempts:
            began = one.created_at if one is not None and one.nodes > 1 else None
            if began is not None and began > self._turns.get(key[0], self._turns_since):
                self._turns[key[0]] = began
        if waits or key in self._asks:
            self._changed.add(key)
            self._room = None

    def note_pod(self, key: Name, before: PodView | None, after: PodView | None) -> None:
        """Note that a pod of the job has changed."""
        was, now = _place(before), _place(after)
        if key in self._asks or lacks_room(after):
            self._changed.add(key)
            self._room = None
        if was == now:
            return
        if before is not None and was is not None:
            self._held.add(was, before.requests, -1)
        if after is not None and now is not None:
            self._held.add(now, after.requests)
        self._room = None

    def note_nodes(self) -> None:
        """Note that the nodes have changed."""
        self._held.forget_known()
        self._room = None

    def room(self, cluster: ClusterView) -> Room:
        """The room as it is now."""
        if self._room is None:
            for key in self._changed:
                job, pods = self._read(key)
                if found := asks_of(job, pods, self._config):
                    self._asks[key] = found
                else:
                    self._asks.pop(key, None)
            self._changed.clear()
            asks = (ask for asks in self._asks.values() for ask in asks)
            over = {uid for uid, _ in self._passed_over}
            if len(self._held.known) > MAX_SHAPES:
                self._held.forget_known()
            self._room = Room(cluster, self._held, asks, self._turns, over)
        return self._room

    def to_decide(self, cluster: ClusterView, now: datetime) -> set[Name]:
        """The jobs that wait for nodes, and have room now; and those with a part, if something has changed.

        One that has room and does not begin, such as because an old pod of it lives, is passed over for a while: others
        need not wait for it. Those with a part are named at most every `placing_timeout`: another training may wait for
        it now.
        """
        self._forget_turns(now - REMEMBERED)
        for key in [key for key, until in self._passed_over.items() if until <= now]:
            del self._passed_over[key]
            self._room = None
        if not (self._asks or self._changed):
            return set()
        room = self.room(cluster)
        waiting = {_key(one.ask): one.ask for one in room.granted(now) if not one.ask.begun}
        parts = self._with_parts(room, now)
        self._granted = {key: self._granted.get(key, now) for key in waiting}
        late = {key for key, since in self._granted.items() if now - since > self._config.placing_timeout}
        for key in late:
            self._turns[waiting[key].namespace] = now  # that was a turn
        if late:
            self._passed_over |= dict.fromkeys(late, now + PASSED_OVER)
            self._room = None
        return parts | {(ask.namespace, ask.job) for key, ask in waiting.items() if key not in late}

    def _with_parts(self, room: Room, now: datetime) -> set[Name]:
        """The jobs with a part, if the room is another one than that by which they were decided the last time."""
        found = (room, room.granted_at)
        if found == self._decided or now - self._decided_at < self._config.placing_timeout:
            return set()
        self._decided, self._decided_at = found, now
        return {name for name, asks in self._asks.items() if any(ask.part for ask in asks)}

    def _forget_turns(self, before: datetime) -> None:
        """Forget turns that are so old that they make no difference: the namespaces count as those without a turn."""
        self._turns_since = before
        for namespace in [name for name, at in self._turns.items() if at <= before]:
            del self._turns[namespace]
            self._room = None


def _key(ask: Ask) -> Waiting:
    return ask.uid, ask.since


def _place(pod: PodView | None) -> str | None:
    """The node on which the pod holds room."""
    return pod.node if pod is not None and not pod.ended else None
