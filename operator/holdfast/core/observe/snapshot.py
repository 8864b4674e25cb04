"""The input of a decision: one job and what surrounds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.api.attempt import Attempt
from holdfast.api.knowledge import Seen
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.demand import refusal_of
from holdfast.core.observe.members import LauncherView
from holdfast.core.observe.nodes import ClusterView
from holdfast.core.observe.pods import PodView
from holdfast.core.observe.report import Report
from holdfast.core.observe.room import Room, Shape, large_enough
from holdfast.core.observe.start_trouble import Inspection
from holdfast.core.observe.usable_nodes import has_labels


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server refused to create a pod of this attempt."""

    attempt: int
    at: datetime
    status: int  # HTTP
    reason: str  # of the Status object, e.g. Forbidden
    message: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job and what surrounds it, at one moment."""

    now: datetime
    job: TrainingJob
    pods: tuple[PodView, ...] = ()  # every pod that carries the job's UID, ended ones included
    cluster: ClusterView = field(default_factory=ClusterView)
    reports: Mapping[str, Report] = field(default_factory=dict)  # by pod UID
    members: Mapping[str, LauncherView] = field(default_factory=dict)  # by pod UID; only of jobs with several nodes
    others: Room | None = None  # free nodes and who wants them; None: nothing is known of other jobs
    inspections: Mapping[str, Inspection] = field(default_factory=dict)  # by pod UID
    profile: CapacityProfile | None = None  # None also if the profile that capacity.profile names does not exist
    refusal: Refusal | None = None
    listening_since: datetime | None = None  # since when this operator takes reports
    namespace_closed: bool = False  # the namespace is being deleted: nothing can be created in it
    progress_slot: bool = True  # the cluster-wide limit of progress writes allows one now
    config: OperatorConfig = field(default_factory=OperatorConfig)
    grid: tuple[ProfileTier, ...] = field(init=False, repr=False, compare=False)
    """The tiers that the job may use, best first; empty if its profile does not exist."""
    room: Room = field(init=False, repr=False, compare=False)
    """The free nodes, and the trainings on several nodes that want them."""

    def __post_init__(self) -> None:
        capacity = self.job.spec.capacity
        if capacity.profile is None:  # inline tiers, as tiers of a profile; made once because they are read often
            tiers = tuple([ProfileTier(**dict(tier)) for tier in capacity.tiers])
        else:
            tiers = self.profile.spec.tiers if self.profile else ()
        object.__setattr__(self, "grid", tiers)
        object.__setattr__(self, "room", self.others or Room(self.cluster))

    def nodes_for(self, tier: ProfileTier) -> frozenset[str]:
        """The names of the nodes that can take a pod of the job on this tier.

        They are usable and large enough, and free beside the operator's other pods, or the job has a pod there.
        """
        shape = Shape.of(self.job.spec.trainer, tier)
        return self.room.free(shape) | (self._own & large_enough(self.cluster, shape))

    def nodes_ever_for(self, tier: ProfileTier) -> frozenset[str]:
        """The names of the nodes that could take a pod of the job on this tier if no other pod were there.

        They are usable and large enough, or the job has a pod there.
        """
        shape, nodes = Shape.of(self.job.spec.trainer, tier), self.cluster.nodes
        own = (name for name in self._own if name in nodes and has_labels(nodes[name], shape.labels))
        return large_enough(self.cluster, shape).union(own)

    def nodes_since(self, tier: ProfileTier) -> datetime | None:
        """Since when as many of these nodes have been there as the job needs; None if there are fewer."""
        trainer = self.job.spec.trainer
        return self.room.free_since(Shape.of(trainer, tier), trainer.nodes, self._own)

    @property
    def _own(self) -> frozenset[str]:
        """The nodes on which the job has a pod."""
        return frozenset(pod.node for pod in self.pods if pod.node and not pod.ended)

    def refusal_of(self, attempt: Attempt) -> Seen:
        """What it shows of the attempt's tier that its pod has no node."""
        return refusal_of(self.pods, attempt, self.job.spec.trainer, self.cluster)
