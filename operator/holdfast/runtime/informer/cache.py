"""The operator's copy of the cluster: the newest known version of every object.

Every `put` and `drop` returns the keys of the jobs whose decision may change: the caller enqueues exactly these. Only
trainings on several nodes that wait for room are left out: `of_room` is asked for them at intervals. An older version
never replaces a newer one, and a deleted object does not come back, because watch events, lists and the answers to own
writes arrive in any order.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from holdfast.api import names
from holdfast.api.errors import HoldfastError
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.members import WAITING
from holdfast.core.observe.nodes import KNOWN_SIGNS, ClusterView, FaultSigns, NodeView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.room import Room
from holdfast.runtime.informer.room_book import RoomBook
from holdfast.runtime.informer.strays import Strays
from holdfast.runtime.informer.versions import Raw, Versions, version_of

_UNREADABLE = (HoldfastError, ValueError, TypeError, KeyError)
V = TypeVar("V")
Changed = Callable[[TrainingJob | None, TrainingJob | None], None]  # a job before and after a change

log = logging.getLogger(__name__)


class Key(NamedTuple):
    """The name of a job."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A TrainingJob that cannot be read. `raw` is kept, so that the operator can write the reason into its status."""

    uid: str
    version: int
    message: str
    raw: Raw


def _now() -> datetime:
    return datetime.now(UTC)


def _parse(parse: Callable[[Raw], V | None], raw: Raw) -> V | None:
    """The view, None if the object cannot be read: one invalid object must not stop the others."""
    try:
        return parse(raw)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        log.warning("cannot read %s %s: %r", raw.get("kind", "object"), raw["metadata"].get("name"), error)
        return None


def _key(raw: Raw) -> Key:
    meta = raw["metadata"]
    return Key(meta.get("namespace", ""), meta["name"])


def _key_of(job: TrainingJob) -> Key:
    return Key(job.metadata.namespace, job.metadata.name)


def _waits_for_node(job: TrainingJob) -> bool:
    attempts = filter(None, (job.status.current, job.status.successor))
    return any(one.state in WAITING and (one.waits_since is None or one.created_at) for one in attempts)


class Cache:
    """All objects. Use it inside one event loop; no method waits."""

    def __init__(
        self, faults: FaultSigns = KNOWN_SIGNS, config: OperatorConfig | None = None, now: Callable[[], datetime] = _now
    ) -> None:
        self._faults = faults
        self._now = now
        self.jobs: dict[Key, TrainingJob] = {}
        self.malformed: dict[Key, Malformed] = {}
        self.profiles: dict[str, CapacityProfile] = {}
        self.bad_profiles: dict[str, str] = {}  # name -> why it cannot be read
        self.bad_status: dict[str, str] = {}  # name of a valid profile -> why its status cannot be read
        self.cluster = ClusterView()
        # Called once for every job that is added, changes or is deleted. A malformed job is not deleted.
        self.listeners: list[Changed] = []
        self._acquiring: set[Key] = set()  # jobs whose pods wait for a node
        self._pods: dict[Key, dict[str, PodView]] = defaultdict(dict)  # by job name, then pod UID
        self._by_uid: dict[str, PodView] = {}
        self.strays = Strays()
        self._room_book = RoomBook(self._job_and_pods, config or OperatorConfig())
        self._by_node: dict[str, set[str]] = defaultdict(set)  # node -> pod UIDs
        self._ends: dict[str, datetime | None] = {}  # node UID -> when its machine is ended, as its NodeClaim says
        self._versions: dict[str, Versions] = defaultdict(Versions)
        self._puts: Mapping[str, Callable[[Raw], set[Key]]] = {
            "jobs": self.put_job,
            "pods": self.put_pod,
            "nodes": self.put_node,
            "profiles": self.put_profile,
        }
        self._drops: Mapping[str, Callable[[Key, str, int], set[Key]]] = {
            "jobs": self._drop_job,
            "pods": self._drop_pod,
            "nodes": self._drop_node,
            "profiles": self._drop_profile,
        }

    def _notify(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        for job in filter(None, (before, after)):
            self._acquiring.discard(_key_of(job))
        if after and _waits_for_node(after):
            self._acquiring.add(_key_of(after))
        for listener in self.listeners:
            listener(before, after)

    # --- reading

    def pods(self, key: Key) -> tuple[PodView, ...]:
        """Every pod with this job's name, including pods of earlier jobs of the same name."""
        return tuple(self._pods.get(key, {}).values())

    def room(self) -> Room:
        """The free nodes, and the trainings on several nodes that want them."""
        return self._room_book.room(self.cluster)

    def pod(self, uid: str) -> PodView | None:
        """The pod with this UID, None if it is unknown."""
        return self._by_uid.get(uid)

    def pod_uids(self) -> set[str]:
        """The UID of every pod."""
        return set(self._by_uid)

    def job_keys(self) -> set[Key]:
        """Every job, every malformed job, and every job name of a pod."""
        return {
            *self.jobs,
            *self.malformed,
            *(key for key, pods in self._pods.items() if pods),
            *map(Key._make, self.strays.keys()),
        }

    # --- jobs

    def put_job(self, raw: Raw) -> set[Key]:
        """Store the current version of a TrainingJob; one that cannot be read goes into `malformed`."""
        if not self._versions["jobs"].accept(raw):
            return set()
        key = _key(raw)
        before = self.jobs.pop(key, None)
        self.malformed.pop(key, None)
        uid = raw["metadata"]["uid"]
        if before and before.metadata.uid != uid:  # its deletion was missed: another job has its name
            self._notify(before, None)
            before = None
        try:
            job = self.jobs[key] = TrainingJob.parse_next(raw, before)
        except _UNREADABLE as error:
            message = f"{error}"[:1024]
            self.malformed[key] = Malformed(uid, version_of(raw), message, _without_managed_fields(raw))
            self._room_book.note_job(key, None)
            return {key}
        self._notify(before, job)
        self._room_book.note_job(key, job)
        return {key} if before is None or _is_other_job(before, job) else set()

    def _job_and_pods(self, key: tuple[str, str]) -> tuple[TrainingJob | None, tuple[PodView, ...]]:
        return self.jobs.get(Key(*key)), self.pods(Key(*key))

    def of_room(self) -> set[Key]:
        """The trainings on several nodes for which the room of the cluster may have changed: see RoomBook.to_decide."""
        return {Key(*one) for one in self._room_book.to_decide(self.cluster, self._now())}

    def forget_job(self, key: Key, uid: str) -> None:
        """Remove a job that the API server did not find: an interrupted watch may never report its deletion."""
        if (job := self.jobs.get(key)) and job.metadata.uid == uid:
            self._versions["jobs"].forget(key, uid)
            del self.jobs[key]
            self._notify(job, None)
            self._room_book.note_job(key, None)

    def _drop_job(self, key: Key, uid: str, version: int) -> set[Key]:
        if not self._versions["jobs"].record_deletion(key, uid, version):
            return set()
        self.malformed.pop(key, None)
        if job := self.jobs.pop(key, None):
            self._notify(job, None)
        self._room_book.note_job(key, None)
        return {key}

    # --- pods

    def put_pod(self, raw: Raw) -> set[Key]:
        """Store the current version of a pod."""
        known = self._versions["pods"].live.get(_key(raw))
        if not self._versions["pods"].accept(raw):
            return set()
        touched: set[Key] = set()
        if known and known.uid != raw["metadata"]["uid"]:
            # Its deletion was missed: another pod has its name.
            touched = self._drop_pod(_key(raw), known.uid, version_of(raw))
        view = _parse(PodView.parse, raw)
        if view is None:
            stray = self.strays.put(raw)
            return touched | {Key(*stray)} if stray else touched
        self.strays.drop(view.uid)
        key = Key(view.namespace, view.job)
        before = self._by_uid.get(view.uid)
        if before and (before.bound or not before.node) and view.node:
            view = replace(view, bound=True)
        if before and before.node and before.node != view.node:
            self._by_node[before.node].discard(view.uid)
        self._pods[key][view.uid] = self._by_uid[view.uid] = view
        if view.node:
            self._by_node[view.node].add(view.uid)
        self._room_book.note_pod(key, before, view)
        return touched | {key} if _differs(before, view) else touched

    def forget_pod(self, name: Key, uid: str) -> None:
        """Remove a pod that the API server did not find: an interrupted watch may never report its deletion."""
        self._versions["pods"].forget(name, uid)
        self._drop_pod_view(uid)

    def _drop_pod(self, name: Key, uid: str, version: int) -> set[Key]:
        self._versions["pods"].record_deletion(name, uid, version)
        return self._drop_pod_view(uid)

    def _drop_pod_view(self, uid: str) -> set[Key]:
        view = self._by_uid.pop(uid, None)
        if view is None:
            self.strays.drop(uid)
            return set()
        key = Key(view.namespace, view.job)
        self._pods[key].pop(uid, None)
        if not self._pods[key]:
            del self._pods[key]
        if view.node:
            self._by_node[view.node].discard(uid)
            if not self._by_node[view.node]:
                del self._by_node[view.node]
        self._room_book.note_pod(key, view, None)
        return {key}

    # --- nodes

    def put_node(self, raw: Raw) -> set[Key]:
        """Store the current version of a node. A heartbeat affects no job."""
        if not self._versions["nodes"].accept(raw):
            return set()
        view = _parse(partial(NodeView.parse, faults=self._faults), raw)
        if view is None:
            return set()
        if view.uid in self._ends:
            view = replace(view, termination_at=self._ends[view.uid])
        before = self.cluster.nodes.get(view.name)
        if before == view:
            return set()
        touched = self._set_nodes({**self.cluster.nodes, view.name: view}, (view.name,))
        if before is None or _may_attract_pods(before, view):
            touched |= self._acquiring
        return touched

    def note_end(self, name: str, uid: str, at: datetime | None) -> set[Key]:
        """Note when the machine of a node is ended, as its NodeClaim says; None: it does not say it."""
        node = self.cluster.nodes.get(name)
        if node is None or node.uid != uid or (at is None and uid not in self._ends):
            return set()
        self._ends[uid] = at
        if node.termination_at == at:
            return set()
        return self._set_nodes({**self.cluster.nodes, name: replace(node, termination_at=at)}, (name,))

    def _drop_node(self, key: Key, uid: str, version: int) -> set[Key]:
        if not self._versions["nodes"].record_deletion(key, uid, version):
            return set()
        rest = {name: node for name, node in self.cluster.nodes.items() if name != key.name}
        self._ends.pop(uid, None)
        return self._set_nodes(rest, (key.name,)) | self._acquiring

    def _set_nodes(self, nodes: Mapping[str, NodeView], changed: Iterable[str]) -> set[Key]:
        was = self.cluster
        self.cluster = ClusterView(nodes.values())
        self._room_book.note_nodes()
        touched = set(changed)
        if [n.name for n in was.silent] != [
            n.name for n in self.cluster.silent
        ]:  # the number of silent nodes decides if it is an outage
            touched |= {node.name for node in (*was.silent, *self.cluster.silent)}
        return {
            Key(pod.namespace, pod.job)
            for name in touched
            for uid in self._by_node.get(name, ())
            if (pod := self._by_uid.get(uid))
        }

    # --- profiles

    def put_profile(self, raw: Raw) -> set[Key]:
        """Store the current version of a CapacityProfile. A profile that cannot be read counts as absent.

        A profile whose status cannot be read is used without it, because the status has only observations. A new
        status affects no job.
        """
        if not self._versions["profiles"].accept(raw):
            return set()
        name = raw["metadata"]["name"]
        before = self._forget_profile(name)
        now: CapacityProfile | None
        try:
            now = CapacityProfile.parse(raw)
        except _UNREADABLE as error:
            now = self._without_status(name, raw, str(error)[:1024])
        if now:
            self.profiles[name] = now
        return set() if before and now and before.spec == now.spec else self._jobs_using(name)

    def _without_status(self, name: str, raw: Raw, message: str) -> CapacityProfile | None:
        try:
            profile = CapacityProfile.parse({**raw, "status": {}})
        except _UNREADABLE:
            self.bad_profiles[name] = message
            return None
        self.bad_status[name] = message
        return profile

    def _forget_profile(self, name: str) -> CapacityProfile | None:
        self.bad_profiles.pop(name, None)
        self.bad_status.pop(name, None)
        return self.profiles.pop(name, None)

    def _drop_profile(self, key: Key, uid: str, version: int) -> set[Key]:
        if not self._versions["profiles"].record_deletion(key, uid, version):
            return set()
        self._forget_profile(key.name)
        return self._jobs_using(key.name)

    def _jobs_using(self, profile: str) -> set[Key]:
        return {key for key, job in self.jobs.items() if job.spec.capacity.profile == profile}

    # --- by kind: `jobs`, `pods`, `nodes` or `profiles`

    def put(self, kind: str, raw: Raw) -> set[Key]:
        """Store the current version of an object."""
        return self._puts[kind](raw)

    def drop(self, kind: str, raw: Raw) -> set[Key]:
        """Remove a deleted object."""
        return self._drops[kind](_key(raw), raw["metadata"]["uid"], version_of(raw))

    def drop_missing(self, kind: str, present: Set[str], version: int) -> set[Key]:
        """Drop every object that is missing from a complete list: its UID is not in `present`.

        `version` is the list's resourceVersion: newer objects in the cache stay.
        """
        touched: set[Key] = set()
        for (namespace, name), uid in self._versions[kind].missing(present, version):
            touched |= self._drops[kind](Key(namespace, name), uid, version)
        return touched


def _without_managed_fields(raw: Raw) -> Raw:
    """The object without the field that takes most of its memory and that nothing reads."""
    return {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name != "managedFields"}}


def _is_other_job(before: TrainingJob, after: TrainingJob) -> bool:
    """True if a decision may depend on the difference. It does not on other annotations, or on labels: people and
    programs change these as often as they like.
    """

    def read(job: TrainingJob) -> tuple[object, ...]:
        meta = job.metadata
        requests = (meta.annotations.get(names.ANNOTATION_MOVE), meta.annotations.get(names.ANNOTATION_CHECKPOINT))
        return meta.generation, meta.deletion_timestamp, requests, job.status

    return read(before) != read(after)


def _differs(before: PodView | None, after: PodView) -> bool:
    """True if a decision may depend on the difference."""
    return before is None or replace(before, resource_version=after.resource_version) != after


def _may_attract_pods(before: NodeView, after: NodeView) -> bool:
    """True if a pod that did not fit may fit on the node now."""
    return (after.ready and not before.ready) or (before.labels, before.taints, before.unschedulable) != (
        after.labels,
        after.taints,
        after.unschedulable,
    )
