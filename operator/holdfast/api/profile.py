"""CapacityProfile and its tiers: the capacity that the platform offers."""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from holdfast.api.knowledge import MAX_FAULTY, MAX_TIERS, NodeFaults, Observation, TierKnowledge
from holdfast.api.model import Model
from holdfast.api.rules import KeyedBy, Rule
from holdfast.api.scalars import Clip, Count, Duration, DurationBounds, Hours, Money, Quantity, Time, format_duration
from holdfast.api.storage import Storage
from holdfast.api.strings import Image, Label, LabelKey, LabelValue, ObjectName, PythonVersion, ResourceName

TierKind = Literal["Spot", "Dedicated", "CPU"]


class NodeTaint(Protocol):
    """A taint of a node; a value or effect that is not set is empty."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


class Toleration(Model):
    """A taint of the tier's nodes that the job's pods tolerate, as in a pod."""

    key: LabelKey | None = None
    """Key of the taint. Without a key every taint is tolerated; operator must be Exists then."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """Equal: the value of the taint must be equal. Exists: every value is tolerated."""
    value: LabelValue | None = None
    """Value of the taint. Only allowed with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. Default: every effect is tolerated."""
    toleration_seconds: Count | None = None
    """For how many seconds a NoExecute taint is tolerated. Default: forever."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a toleration without key must have operator Exists: set the key or the operator",
            cel="has(self.key) || self.operator == 'Exists'",
            is_met=lambda t: t.key is not None or t.operator == "Exists",
            got_cel="self.operator",
            got=lambda t: t.operator,
            field=".operator",
        ),
        Rule(
            allowed="a toleration with operator Exists must not have a value: remove it, or use operator Equal",
            cel="!has(self.value) || self.operator == 'Equal'",
            is_met=lambda t: t.value is None or t.operator == "Equal",
            got_cel="self.value",
            got=lambda t: t.value,
            field=".value",
        ),
        Rule(
            allowed="tolerationSeconds is only allowed with effect NoExecute",
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            is_met=lambda t: t.toleration_seconds is None or t.effect == "NoExecute",
            got_cel="(has(self.effect) ? 'effect ' + self.effect : 'no effect')",
            got=lambda t: f"effect {t.effect}" if t.effect else "no effect",
            field=".tolerationSeconds",
        ),
    )

    def tolerates(self, taint: NodeTaint) -> bool:
        """True if this toleration matches the taint, as the scheduler matches them."""
        if self.effect not in (None, taint.effect) or self.key not in (None, taint.key):
            return False
        return self.operator == "Exists" or (self.value or "") == taint.value


class Tier(Model):
    """One kind of capacity."""

    name: Label
    """Name of the tier, unique in the grid. `kubectl get tj` shows it in the column TIER."""
    kind: TierKind
    """Spot: the cloud may take the node away. Dedicated: it may not. CPU: the node has no accelerators."""
    accelerator: ResourceName | None = None
    """Resource name of the accelerators of a node of this tier, such as nvidia.com/gpu. Not allowed in a CPU tier."""
    accelerators_per_node: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    """Number of accelerators on each node of this tier, such as 4 for nodes with four small ones in a grid that also
    has nodes with one large one. It takes the place of trainer.acceleratorsPerNode, also for the number of processes
    that torchrun starts; a program that needs no accelerator (0 there) gets none here either. The number of nodes is
    the same on every tier. Default: trainer.acceleratorsPerNode."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32, default_factory=dict)]
    """Labels that a node of this tier must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints of the nodes of this tier that the pods tolerate."""
    price_per_node_hour: Money | None = None
    """Price of one node of this tier per hour, as a decimal string such as "3.06". Default: no price; the tier counts
    as free."""
    acquire_timeout: Annotated[timedelta, DurationBounds("1s", "7d")] | None = None
    """How long a pod may wait for a node of this tier before the next tier is tried, such as 5m. Default: 5m, or 15m
    while no node matches the tier, because an autoscaler may add one."""
    pace: Duration | None = None
    """How long one step takes on a node of this tier, such as 350ms or 12s, if that is known beforehand, for example
    from another job. Policies Cheapest and Deadline use it until the job has measured the pace itself. Written in the
    job, it lets policy Deadline plan before the first step. In a profile, and once a pace was measured, only the ratios
    between the tiers count, so set it for all tiers of the same program. Default: not known; an accelerator that costs
    less than the others of its kind is assumed to be slower."""
    observation: Observation | None = None
    """What it costs to learn that the tier is available again. Free: its nodes are part of the cluster and can be
    seen. Billed: an autoscaler adds a node when a pod needs one, and this node costs money. Default: Holdfast observes
    it; Billed from the first node on that was added after a pod needed it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a tier of kind CPU must not set accelerator: remove it, or set kind to Spot or Dedicated",
            cel="self.kind != 'CPU' || !has(self.accelerator)",
            is_met=lambda tier: tier.kind != "CPU" or tier.accelerator is None,
            got_cel="self.accelerator",
            got=lambda tier: tier.accelerator,
            field=".accelerator",
        ),
        Rule(
            allowed="acceleratorsPerNode needs accelerator: set it, such as nvidia.com/gpu, or leave both out",
            cel="!has(self.acceleratorsPerNode) || has(self.accelerator)",
            is_met=lambda tier: tier.accelerators_per_node is None or tier.accelerator is not None,
            got_cel="'no accelerator'",
            got=lambda _: "no accelerator",
            field=".acceleratorsPerNode",
        ),
        Rule(
            allowed="pace must be longer than 0s, such as 350ms: set the time of a step, or remove it",
            cel="!has(self.pace) || self.pace.matches('[1-9]')",
            is_met=lambda tier: tier.pace is None or bool(tier.pace),
            got_cel="self.pace",
            got=lambda tier: format_duration(tier.pace or timedelta(0)),
            field=".pace",
        ),
    )


class ProfileTier(Tier):
    """A tier of a CapacityProfile. It also has the fields that only the platform may set."""

    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the pods on this tier. Default: none."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods on this tier. Default: the cluster's."""
    scheduler_name: ObjectName | None = None
    """Scheduler of the pods on this tier, such as one that packs nodes or knows racks. Default: default-scheduler."""
    extra_resources: Annotated[dict[ResourceName, Quantity], Field(max_length=16, default_factory=dict)]
    """More resources of each pod on this tier, such as rdma/hca: 1."""


class RunDefaults(Model):
    """What `holdfast run` uses if neither its options nor the files of a person say it."""

    image: Image | None = None
    """Container image of the program."""
    python: PythonVersion | None = None
    """Version of Python in that image, such as 3.11: for it `holdfast run` chooses the packages of a program."""
    storage: Storage | None = None
    """Where checkpoints are stored. Those of a job are below {prefix}/{namespace}/{name}; in a volumeClaim, below
    {path}/{namespace}/{name}."""


class CapacityProfileSpec(Model):
    """The tiers that jobs with this profile may use."""

    tiers: Annotated[tuple[ProfileTier, ...], Field(min_length=1, max_length=MAX_TIERS), KeyedBy("name")]
    """The tiers, best first."""
    defaults: RunDefaults = RunDefaults()
    """What `holdfast run` puts into jobs with this profile. Jobs that are applied are not changed."""


class Counted(Model):
    """What the jobs that use a profile have counted for one tier."""

    tier: Annotated[str, Clip(253)]
    """Name of the tier."""
    interruptions: Count = 0
    """Number of nodes that the tier took back from these jobs."""
    hours: Hours = Decimal(0)
    """Node time of these jobs on the tier, in hours."""


class CapacityProfileStatus(Model):
    """What the jobs of the cluster observed of the tiers. Only Holdfast writes it."""

    up: Annotated[str, Clip(1100)] = ""
    """Names of the tiers that gave a node when they were last observed."""
    out: Annotated[str, Clip(1100)] = ""
    """Names of the tiers that took a node back, or lacked capacity, when they were last observed. What jobs of only one
    namespace were refused (tiers[].refusals) keeps no job of another namespace from asking."""
    seen_at: Time | None = None
    """When a tier was last observed, exact to some minutes."""
    tiers: Annotated[tuple[TierKnowledge, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """What is known of each tier, including observations of jobs that are deleted. Old observations count less: each
    time a tier reaches 100 interruptions, its fields interruptions and nodeTime are halved."""
    faulty_nodes: Annotated[tuple[NodeFaults, ...], Field(max_length=MAX_FAULTY), KeyedBy("node")] = ()
    """Nodes on which attempts ended for a reason that the node may have caused. New pods avoid them where other nodes
    are free; after two such attempts they do not use them, unless that leaves too few nodes."""
    counted: Annotated[tuple[Counted, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """The part of these counts that comes from the jobs that use the profile now. A new leader continues from it."""
