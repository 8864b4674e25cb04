"""What the operator knows of the cluster: the newest version of every object it was told about.

Every `put_*` and `drop_*` returns the keys of the jobs whose decision may change, so the caller enqueues exactly those.
An older version of an object never replaces a newer one, and an object that was deleted does not come back: watch
events, lists and the answers to our own writes may arrive in any order.
"""

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from holdfast.api.attempt import AttemptState
from holdfast.api.errors import HoldfastError
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.observe.nodes import ClusterView, NodeView
from holdfast.core.observe.pods import PodView

Raw = Mapping[str, Any]
TOMBSTONES = 20_000
_UNREADABLE = (HoldfastError, ValueError, TypeError, KeyError)
V = TypeVar("V")
Changed = Callable[[TrainingJob | None, TrainingJob | None], None]  # a job as it was, and as it is now

log = logging.getLogger(__name__)


class Key(NamedTuple):
    """The name of a job."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A TrainingJob that cannot be read. `raw` is kept, so that the reason can be written to its own status."""

    uid: str
    version: int
    message: str
    raw: Raw


@dataclass(frozen=True, slots=True)
class _Stored:
    uid: str
    version: int


class _Versions:
    """Newest resourceVersion by object, and the UIDs that are gone with the version of their end.

    A watch with a label selector also calls an object deleted that lost the label. It may come back in a newer version.
    """

    def __init__(self) -> None:
        self.live: dict[tuple[str, str], _Stored] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()

    def accept(self, raw: Raw) -> bool:
        """Note this version; False if it is not newer than what is known."""
        meta = raw["metadata"]
        uid, version = meta["uid"], _version(raw)
        name = (meta.get("namespace", ""), meta["name"])
        known = self.live.get(name)
        if version <= self._gone.get(uid, -1) or (known and version <= known.version):
            return False
        self._gone.pop(uid, None)
        self.live[name] = _Stored(uid, version)
        return True

    def bury(self, name: tuple[str, str], uid: str, version: int) -> bool:
        """Note that this UID was gone at this version; False if something else lives under the name, or nothing."""
        self._gone[uid] = max(version, self._gone.get(uid, -1))
        while len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)
        known = self.live.get(name)
        if known is None or known.uid != uid:
            return False
        del self.live[name]
        return True

    def lose(self, name: tuple[str, str], uid: str) -> None:
        """The API server does not find this UID. Should that be wrong, the same version brings it back."""
        known = self.live.get(name)
        if known and known.uid == uid:
            del self.live[name]

    def missing(self, listed: Iterable[Raw], version: int) -> list[tuple[tuple[str, str], str]]:
        """What a list of this version shows to be gone: name and UID of objects that are not in it and not newer."""
        present = {raw["metadata"]["uid"] for raw in listed}
        return [
            (name, stored.uid)
            for name, stored in self.live.items()
            if stored.uid not in present and stored.version <= version
        ]


def _parsed(parse: Callable[[Raw], V | None], raw: Raw) -> V | None:
    """The view, or None if the object is not what its kind promises: one bad object stops nothing else."""
    try:
        return parse(raw)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        log.warning("%s %s cannot be read: %r", raw.get("kind", "object"), raw["metadata"].get("name"), error)
        return None


def _version(raw: Raw) -> int:
    return int(raw["metadata"].get("resourceVersion") or 0)


def _key(raw: Raw) -> Key:
    meta = raw["metadata"]
    return Key(meta.get("namespace", ""), meta["name"])


class Cache:
    """All objects. Use it inside one event loop; nothing here waits."""

    def __init__(self) -> None:
        self.jobs: dict[Key, TrainingJob] = {}
        self.malformed: dict[Key, Malformed] = {}
        self.profiles: dict[str, CapacityProfile] = {}
        self.bad_profiles: dict[str, str] = {}  # name -> what is wrong with it
        self.bad_status: dict[str, str] = {}  # name of a profile that can be used -> why its status cannot be read
        self.cluster = ClusterView()
        # Told of every job that comes, changes or goes, once. One that cannot be read has not gone.
        self.listeners: list[Changed] = []
        self._pods: dict[Key, dict[str, PodView]] = defaultdict(dict)  # by job name, then pod UID
        self._by_uid: dict[str, PodView] = {}
        self._by_node: dict[str, set[str]] = defaultdict(set)  # node -> pod UIDs
        self._versions: dict[str, _Versions] = defaultdict(_Versions)

    def _tell(self, before: TrainingJob | None, after: TrainingJob | None) -> None:
        for listener in self.listeners:
            listener(before, after)

    # --- reading

    def pods(self, key: Key) -> tuple[PodView, ...]:
        """Every pod that names this job, those of earlier jobs of the same name included."""
        return tuple(self._pods.get(key, {}).values())

    def pod(self, uid: str) -> PodView | None:
        """One pod."""
        return self._by_uid.get(uid)

    def pod_uids(self) -> set[str]:
        """The UID of every pod."""
        return set(self._by_uid)

    def names(self) -> set[Key]:
        """Every job, and every name that pods or a malformed object still carry."""
        return {*self.jobs, *self.malformed, *(key for key, pods in self._pods.items() if pods)}

    # --- jobs

    def put_job(self, raw: Raw) -> set[Key]:
        """A TrainingJob as it is now. One that cannot be read is kept aside, see `malformed`."""
        if not self._versions["jobs"].accept(raw):
            return set()
        key = _key(raw)
        before = self.jobs.pop(key, None)
        self.malformed.pop(key, None)
        uid = raw["metadata"]["uid"]
        if before and before.metadata.uid != uid:  # its end was missed: another job has its name
            self._tell(before, None)
            before = None
        try:
            job = self.jobs[key] = TrainingJob.parse_next(raw, before)
        except _UNREADABLE as error:
            message = f"{error}"[:1024]
            self.malformed[key] = Malformed(uid, _version(raw), message, raw)
        else:
            self._tell(before, job)
        return {key}

    def drop_job(self, raw: Raw) -> set[Key]:
        """A TrainingJob that is gone."""
        return self._drop_job(_key(raw), raw["metadata"]["uid"], _version(raw))

    def lose_job(self, key: Key, uid: str) -> None:
        """The API server answered that it has no such job. A watch that was interrupted may never say so."""
        if (job := self.jobs.get(key)) and job.metadata.uid == uid:
            self._versions["jobs"].lose(key, uid)
            del self.jobs[key]
            self._tell(job, None)

    def _drop_job(self, key: Key, uid: str, version: int) -> set[Key]:
        if not self._versions["jobs"].bury(key, uid, version):
            return set()
        self.malformed.pop(key, None)
        if job := self.jobs.pop(key, None):
            self._tell(job, None)
        return {key}

    # --- pods

    def put_pod(self, raw: Raw) -> set[Key]:
        """A pod as it is now."""
        known = self._versions["pods"].live.get(_key(raw))
        if not self._versions["pods"].accept(raw):
            return set()
        touched: set[Key] = set()
        if known and known.uid != raw["metadata"]["uid"]:
            # Its end was missed: another pod has its name.
            touched = self._drop_pod(_key(raw), known.uid, _version(raw))
        view = _parsed(PodView.parse, raw)
        if view is None:
            return touched
        key = Key(view.namespace, view.job)
        before = self._by_uid.get(view.uid)
        if before and before.node and before.node != view.node:
            self._by_node[before.node].discard(view.uid)
        self._pods[key][view.uid] = self._by_uid[view.uid] = view
        if view.node:
            self._by_node[view.node].add(view.uid)
        return touched | {key} if _differ(before, view) else touched

    def drop_pod(self, raw: Raw) -> set[Key]:
        """A pod that is gone."""
        return self._drop_pod(_key(raw), raw["metadata"]["uid"], _version(raw))

    def lose_pod(self, name: Key, uid: str) -> None:
        """The API server answered that it has no such pod. A watch that was interrupted may never say so."""
        self._versions["pods"].lose(name, uid)
        self._forget_pod(uid)

    def _drop_pod(self, name: Key, uid: str, version: int) -> set[Key]:
        self._versions["pods"].bury(name, uid, version)
        return self._forget_pod(uid)

    def _forget_pod(self, uid: str) -> set[Key]:
        view = self._by_uid.pop(uid, None)
        if view is None:
            return set()
        key = Key(view.namespace, view.job)
        self._pods[key].pop(uid, None)
        if not self._pods[key]:
            del self._pods[key]
        if view.node:
            self._by_node[view.node].discard(uid)
            if not self._by_node[view.node]:
                del self._by_node[view.node]
        return {key}

    # --- nodes

    def put_node(self, raw: Raw) -> set[Key]:
        """A node as it is now. Heartbeats touch no job."""
        if not self._versions["nodes"].accept(raw):
            return set()
        view = _parsed(NodeView.parse, raw)
        if view is None:
            return set()
        before = self.cluster.nodes.get(view.name)
        if before == view:
            return set()
        touched = self._set_nodes({**self.cluster.nodes, view.name: view}, (view.name,))
        if before is None or _attracts(before, view):
            touched |= self._acquiring()
        return touched

    def drop_node(self, raw: Raw) -> set[Key]:
        """A node that is gone."""
        return self._drop_node(raw["metadata"]["name"], raw["metadata"]["uid"], _version(raw))

    def _drop_node(self, name: str, uid: str, version: int) -> set[Key]:
        if not self._versions["nodes"].bury(("", name), uid, version):
            return set()
        rest = {n: node for n, node in self.cluster.nodes.items() if n != name}
        return self._set_nodes(rest, (name,)) | self._acquiring()

    def _set_nodes(self, nodes: Mapping[str, NodeView], changed: Iterable[str]) -> set[Key]:
        was = self.cluster
        self.cluster = ClusterView(nodes.values())
        touched = set(changed)
        if [n.name for n in was.silent] != [n.name for n in self.cluster.silent]:  # whether it is an outage may change
            touched |= {node.name for node in (*was.silent, *self.cluster.silent)}
        return {
            Key(pod.namespace, pod.job)
            for name in touched
            for uid in self._by_node.get(name, ())
            if (pod := self._by_uid.get(uid))
        }

    def _acquiring(self) -> set[Key]:
        return {
            key
            for key, job in self.jobs.items()
            for attempt in (job.status.current, job.status.successor)
            if attempt and attempt.state in (AttemptState.INTENDED, AttemptState.ACQUIRING)
        }

    # --- profiles

    def put_profile(self, raw: Raw) -> set[Key]:
        """A CapacityProfile as it is now. One that cannot be read counts as absent.

        Its status is only what was learned: a profile whose status cannot be read is used without it. No job is
        touched by a new status.
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
        return set() if before and now and before.spec == now.spec else self._using(name)

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

    def drop_profile(self, raw: Raw) -> set[Key]:
        """A CapacityProfile that is gone."""
        return self._drop_profile(raw["metadata"]["name"], raw["metadata"]["uid"], _version(raw))

    def _drop_profile(self, name: str, uid: str, version: int) -> set[Key]:
        if not self._versions["profiles"].bury(("", name), uid, version):
            return set()
        self._forget_profile(name)
        return self._using(name)

    def _using(self, profile: str) -> set[Key]:
        return {key for key, job in self.jobs.items() if job.spec.capacity.profile == profile}

    # --- everything at once

    def sweep(self, kind: str, listed: Iterable[Raw], version: int) -> set[Key]:
        """Take a complete list of `jobs`, `pods`, `nodes` or `profiles`: put what is there, drop what is not.

        `version` is the list's resourceVersion: what the cache has from later stays.
        """
        items = list(listed)
        put = getattr(self, f"put_{kind.removesuffix('s')}")
        touched: set[Key] = set()
        for raw in items:
            touched |= put(raw)
        for (namespace, name), uid in self._versions[kind].missing(items, version):
            match kind:
                case "jobs":
                    touched |= self._drop_job(Key(namespace, name), uid, version)
                case "pods":
                    touched |= self._drop_pod(Key(namespace, name), uid, version)
                case "nodes":
                    touched |= self._drop_node(name, uid, version)
                case _:
                    touched |= self._drop_profile(name, uid, version)
        return touched


def _differ(before: PodView | None, after: PodView) -> bool:
    """True if a decision could tell the two apart."""
    return before is None or replace(before, resource_version=after.resource_version) != after


def _attracts(before: NodeView, after: NodeView) -> bool:
    """True if a pod that could not be placed may be placed on the node now."""
    return (after.ready and not before.ready) or (before.labels, before.taints, before.unschedulable) != (
        after.labels,
        after.taints,
        after.unschedulable,
    )
