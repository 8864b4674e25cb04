"""CapacityProfile and its tiers: what the platform offers."""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from holdfast.api.knowledge import MAX_TIERS, Observation, TierKnowledge
from holdfast.api.lists import KeyedBy
from holdfast.api.model import Model
from holdfast.api.rules import Rule
from holdfast.api.scalars import Clip, Count, DurationBounds, Hours, Money, Quantity, Time
from holdfast.api.strings import Label, LabelKey, LabelValue, ObjectName, ResourceName

__all__ = [
    "MAX_TIERS",
    "CapacityProfileSpec",
    "CapacityProfileStatus",
    "Counted",
    "ProfileTier",
    "Tier",
    "TierKind",
    "Toleration",
]

TierKind = Literal["Spot", "Dedicated", "CPU"]


class Toleration(Model):
    """A taint that the tier's nodes carry and its pods bear, as in a pod."""

    key: LabelKey | None = None
    """Key of the taint; without one, every taint (operator must be Exists)."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """Equal compares the value, Exists bears any value."""
    value: LabelValue | None = None
    """Value of the taint; only with Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; without one, every effect."""
    toleration_seconds: Count | None = None
    """For how many seconds a NoExecute taint is borne; for ever if it is not set."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a toleration without key must have operator Exists",
            cel="has(self.key) || self.operator == 'Exists'",
            holds=lambda t: t.key is not None or t.operator == "Exists",
            got_cel="self.operator",
            got=lambda t: t.operator,
            field=".operator",
        ),
        Rule(
            allowed="a toleration with operator Exists must not have a value",
            cel="!has(self.value) || self.operator == 'Equal'",
            holds=lambda t: t.value is None or t.operator == "Equal",
            got_cel="self.value",
            got=lambda t: t.value,
            field=".value",
        ),
        Rule(
            allowed="tolerationSeconds may be set for effect NoExecute only",
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            holds=lambda t: t.toleration_seconds is None or t.effect == "NoExecute",
            got_cel="(has(self.effect) ? 'effect ' + self.effect : 'no effect')",
            got=lambda t: f"effect {t.effect}" if t.effect else "no effect",
            field=".tolerationSeconds",
        ),
    )


class Tier(Model):
    """One kind of capacity."""

    name: Label
    """Name of the tier, unique in the grid; shown in the TIER column."""
    kind: TierKind
    """Spot may be taken away by the cloud, Dedicated may not, CPU has no accelerators."""
    accelerator: ResourceName | None = None
    """Resource name of the accelerator that a node of this tier has, such as nvidia.com/gpu. A CPU tier has none."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32, default_factory=dict)]
    """Labels that a node of this tier has."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that the nodes of this tier carry."""
    price_per_node_hour: Money | None = None
    """What one node of this tier costs an hour, as a decimal string such as "3.06"."""
    acquire_timeout: Annotated[timedelta, DurationBounds("1s", "7d")] | None = None
    """How long a pod may wait for a node of this tier before the next tier is tried, such as 5m. Default: 5m, or 15m
    while no node matches the tier, since an autoscaler may bring one."""
    observation: Observation | None = None
    """What it costs to learn that the tier is back. Free: its nodes stand in the cluster, and are seen. Billed: an
    autoscaler brings a node when a pod asks for one, and that node is paid for. Default: it is found out; Billed from
    the first node on that was not there when a pod asked."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a tier of kind CPU must not set accelerator",
            cel="self.kind != 'CPU' || !has(self.accelerator)",
            holds=lambda tier: tier.kind != "CPU" or tier.accelerator is None,
            got_cel="self.accelerator",
            got=lambda tier: tier.accelerator,
            field=".accelerator",
        ),
    )


class ProfileTier(Tier):
    """A tier of a CapacityProfile: it may also set what only the platform may choose."""

    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the pods on this tier."""
    priority_class_name: ObjectName | None = None
    """PriorityClass of the pods on this tier."""
    extra_resources: Annotated[dict[ResourceName, Quantity], Field(max_length=16, default_factory=dict)]
    """Further resources of each pod on this tier, such as rdma/hca: 1."""


class CapacityProfileSpec(Model):
    """A named grid that jobs may use."""

    tiers: Annotated[tuple[ProfileTier, ...], Field(min_length=1, max_length=MAX_TIERS), KeyedBy("name")]
    """The tiers, best first."""


class Counted(Model):
    """What the jobs that use a profile have counted of one tier themselves."""

    tier: Annotated[str, Clip(253)]
    """Name of the tier."""
    losses: Count = 0
    """How often these jobs were told that it took a node back."""
    hours: Hours = Decimal(0)
    """For how many hours these jobs had its nodes."""


class CapacityProfileStatus(Model):
    """What the jobs of the cluster found out about the tiers. Holdfast writes it, nobody else."""

    up: Annotated[str, Clip(1100)] = ""
    """The tiers that gave nodes when they were last seen."""
    out: Annotated[str, Clip(1100)] = ""
    """The tiers that took a node back, or gave none, when they were last seen."""
    seen_at: Time | None = None
    """When any of them was last seen, but for some minutes."""
    tiers: Annotated[tuple[TierKnowledge, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """What is known of each tier, also from jobs that are gone. What is long past counts less: once a tier has taken
    100 nodes back, its losses and had are halved."""
    counted: Annotated[tuple[Counted, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """How much of that the jobs that use the profile now had counted when this was written. An operator that takes over
    goes on from there."""
