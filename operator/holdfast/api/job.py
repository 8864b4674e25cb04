"""The spec of a TrainingJob: what a researcher writes. What runs is in trainer.py."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from holdfast.api.every import Every, cel_instant, no_period
from holdfast.api.lists import KeyedBy
from holdfast.api.model import Model
from holdfast.api.profile import MAX_TIERS, Tier
from holdfast.api.rules import Rule, exactly_one
from holdfast.api.scalars import (
    Count,
    Duration,
    DurationBounds,
    Flag,
    Moment,
    Money,
    Quantity,
    format_duration,
    quantity_value,
)
from holdfast.api.strings import Bucket, Endpoint, MetricName, ObjectName, Region, RelativePath, Resume
from holdfast.api.trainer import (
    ClaimRef,
    ConfigMapSource,
    EmptyDir,
    EnvFrom,
    EnvSource,
    EnvVar,
    FieldRef,
    KeyRef,
    LocalRef,
    Resources,
    SecretSource,
    SecurityContext,
    Trainer,
    Volume,
)

__all__ = [
    "Best",
    "Capacity",
    "Checkpoint",
    "ClaimRef",
    "ConfigMapSource",
    "EmptyDir",
    "EnvFrom",
    "EnvSource",
    "EnvVar",
    "Failure",
    "FieldRef",
    "Goal",
    "Keep",
    "KeyRef",
    "LocalRef",
    "Policy",
    "Resources",
    "ReturnPolicy",
    "S3Storage",
    "SecretSource",
    "SecurityContext",
    "Storage",
    "Trainer",
    "TrainingJobSpec",
    "Volume",
    "VolumeClaimStorage",
]


Policy = Literal["Ordered", "Cheapest", "Deadline"]
ReturnPolicy = Literal["Never", "Eager", "Slack"]


class Capacity(Model):
    """Where the job may run: a profile or tiers inline, exactly one of them."""

    profile: ObjectName | None = None
    """Name of a CapacityProfile of the cluster."""
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=MAX_TIERS), KeyedBy("name")] = ()
    """The tiers that this job may use, best first."""
    policy: Policy = "Ordered"
    """How the next tier is chosen. Ordered: every attempt tries the tiers in their order. Cheapest: the tier, of those
    that can be had, on which a step is expected to cost least, with its price, pace, starts and losses. Deadline: as
    cheap as can be without missing the deadline; needs goal.steps, or a trainer that reports its goal, and a tier of
    kind Dedicated. While a policy lacks what it needs, the job says so and the tiers are tried in their order."""
    deadline: Moment | None = None
    """When the training has to be done, such as 2027-01-31T00:00:00Z; policy Deadline keeps it, with any other policy
    it is only watched. The condition DeadlineAtRisk says if it will be missed, and by how much."""
    budget: Money | None = None
    """What the job may spend on nodes, as a decimal string such as "5000". It is suspended, with its checkpoints,
    before it would spend more, and goes on when the budget is raised. Tiers without a price count as free."""
    return_policy: ReturnPolicy = "Slack"
    """When a job leaves a tier on which it runs for a better one that has come back. Never: only when the tier is lost,
    or the deadline demands it. Eager: at once. Slack: as soon as the move is expected to pay for itself, with no risk
    for the deadline. A pod that waits for a node of the better tier is the probe, and counts against quotas; a volume
    that only one node can mount stands in its way."""
    max_overlap: Annotated[timedelta, DurationBounds("0s", "24h")] = timedelta(minutes=10)
    """How long an attempt and its successor may both have nodes, such as 10m. A successor that takes longer to start is
    given up, and another one is tried later each time; with 0s none is started before the attempt has ended."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("profile", "tiers"),
        Rule(
            allowed="policy Deadline must have a deadline, such as 2027-01-31T00:00:00Z",
            cel="self.policy != 'Deadline' || has(self.deadline)",
            holds=lambda capacity: capacity.policy != "Deadline" or capacity.deadline is not None,
            got_cel="'none'",
            got=lambda _: "none",
            field=".deadline",
        ),
    )


class S3Storage(Model):
    """A prefix in a bucket that the job owns."""

    bucket: Bucket
    """Name of the bucket; it must exist."""
    prefix: RelativePath
    """Everything below this prefix belongs to this job; two jobs never share one. Such as vision/vit-faces."""
    endpoint: Endpoint | None = None
    """Address of an S3 server other than AWS, such as https://minio.example:9000."""
    region: Region = "us-east-1"
    """Region of the bucket."""
    credentials_secret: ObjectName | None = None
    """Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and perhaps AWS_SESSION_TOKEN; not set where the pod has an
    identity of its own."""


class VolumeClaimStorage(Model):
    """A folder in a PersistentVolumeClaim that the job owns."""

    name: ObjectName
    """Name of the claim in the job's namespace; every node of every tier must be able to mount it."""
    path: RelativePath
    """Folder in the volume that belongs to this job, such as vision/vit-faces."""


class Storage(Model):
    """Where checkpoints live; exactly one is set."""

    s3: S3Storage | None = None
    """An S3 bucket."""
    volume_claim: VolumeClaimStorage | None = None
    """A PersistentVolumeClaim."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one("s3", "volumeClaim"),)


class Best(Model):
    """Checkpoints that are kept because they are the best by a metric that the program reports."""

    count: Annotated[Count, Field(ge=1, le=1000)] = 1
    """How many are kept."""
    metric: MetricName
    """The metric, by the name under which the program reports it, such as loss or eval/accuracy. A checkpoint without
    it, or with a value that is no finite number, is not kept for it."""
    mode: Literal["Min", "Max"]
    """Which are the best: those with the lowest (Min) or with the highest (Max) value."""


class Keep(Model):
    """Which checkpoints are kept. What one of these keeps, the others cannot take away."""

    last: Annotated[Count, Field(ge=1, le=1000)] = 3
    """How many of the newest verified checkpoints are kept."""
    every: Annotated[timedelta, DurationBounds("1m", "365d")] | None = None
    """One checkpoint for each such time is kept for good, such as 24h."""
    best: Best | None = None
    """The best ones by a metric are kept as well."""


def _shorter_than_every(checkpoint: "Checkpoint") -> bool:
    period, most = checkpoint.every.period, checkpoint.max_loss
    return period is not None and most is not None and most < period


_LONG_ENOUGH = f"{cel_instant('self.maxLoss')} >= {cel_instant('self.every')}"


class Checkpoint(Model):
    """Saving and resuming."""

    storage: Storage
    """Where checkpoints live. Fixed unless the job is suspended."""
    every: Every = Every(period=timedelta(minutes=10))
    """How often to save: a number of steps, a duration, or auto, such as 500 steps or 10m. With auto as often as loses
    the least time: by Daly's formula, from what a save costs the training and how often losses come on the tier; but
    at least every hour, unless saving would cost more than five per cent of the time."""
    max_loss: Annotated[timedelta, DurationBounds("1s", "7d")] | None = None
    """The most work that a loss may cost, such as 15m: the time from one save to the next, and until that is committed.
    Saves come more often than every says where that takes it. A storage too slow for it is saved to without a pause."""
    upload_rate: Quantity | None = None
    """The most bytes a second that each pod uploads while it trains, such as 300M, where the training needs the network
    for itself. A pod that has been told to leave saves as fast as it can. No limit if it is not set."""
    keep: Keep = Keep()
    """Which checkpoints are kept."""
    grace_period: Annotated[timedelta, DurationBounds("1s", "1h")] = timedelta(seconds=100)
    """How long a pod that is told to leave may take to save, such as 100s."""
    resume: Resume = "Auto"
    """Where the first attempt starts: Auto from the newest checkpoint below the prefix, Never from nothing, or the
    address of one checkpoint."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="maxLoss must not be shorter than every: set every to auto, or to no more than maxLoss",
            cel=f"!has(self.maxLoss) || {no_period('self.every')} || {_LONG_ENOUGH}",
            holds=lambda checkpoint: not _shorter_than_every(checkpoint),
            got_cel="self.maxLoss + ' with every ' + self.every",
            got=lambda checkpoint: f"{format_duration(checkpoint.max_loss)} with every {checkpoint.every}",
            field=".maxLoss",
        ),
        Rule(
            allowed="uploadRate must be at least 1M (bytes a second)",
            cel="!has(self.uploadRate) || quantity(string(self.uploadRate)).compareTo(quantity('1M')) >= 0",
            holds=lambda checkpoint: checkpoint.upload_rate is None or quantity_value(checkpoint.upload_rate) >= 10**6,
            got_cel="string(self.uploadRate)",
            got=lambda checkpoint: str(checkpoint.upload_rate),
            field=".uploadRate",
        ),
    )


class Goal(Model):
    """What "done" means, for percent and ETA. The job ends when its program exits 0 of its own accord."""

    steps: Annotated[int, Field(strict=True, ge=1, le=2**53 - 1)] | None = None
    """Number of steps of the whole training."""


class Failure(Model):
    """How many failures of the user's program end the job. Losses never count."""

    max_failures: Annotated[int, Field(strict=True, ge=0, le=100)] = 3
    """The job fails at the first failure beyond this number inside the window."""
    window: Annotated[timedelta, DurationBounds("1m", "365d")] = timedelta(hours=24)
    """How long a failure is remembered, such as 24h."""


def _missing_accelerators(spec: "TrainingJobSpec") -> list[str]:
    if spec.trainer.accelerators_per_node == 0:
        return []
    return [tier.name for tier in spec.capacity.tiers if tier.kind != "CPU" and tier.accelerator is None]


_NAMELESS = "self.capacity.tiers.filter(t, t.kind != 'CPU' && !has(t.accelerator))"


class TrainingJobSpec(Model):
    """What a researcher asks for."""

    trainer: Trainer
    """What runs. Fixed unless the job is suspended."""
    capacity: Capacity
    """Where it may run."""
    checkpoint: Checkpoint
    """How it is saved and resumed."""
    goal: Goal = Goal()
    """What "done" means, for percent and ETA."""
    failure: Failure = Failure()
    """How many failures of the program end the job."""
    suspend: Flag = False
    """True lets the job save, leave its node and wait; false lets it go on."""
    active_deadline: Annotated[timedelta, DurationBounds("1m")] | None = None
    """The job fails when it has been active for this long, such as 90d; time in suspension does not count."""
    ttl_after_finished: Duration | None = None
    """The job is deleted this long after its end, such as 7d; its checkpoints stay. Never if it is not set."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a Spot or Dedicated tier must set accelerator while trainer.acceleratorsPerNode is above 0",
            cel=f"self.trainer.acceleratorsPerNode == 0 || !has(self.capacity.tiers) || {_NAMELESS}.size() == 0",
            holds=lambda spec: not _missing_accelerators(spec),
            got=lambda spec: "no accelerator in " + _missing_accelerators(spec)[0],
            field=".capacity.tiers",
        ),
        Rule(
            allowed="trainer must stay as it is unless the job is suspended (spec.suspend: true)",
            cel="self.suspend || oldSelf.suspend || self.trainer == oldSelf.trainer",
            holds=None,
            got_cel="'another trainer (image ' + self.trainer.image + ')'",
            field=".trainer",
        ),
        Rule(
            allowed="checkpoint.storage must stay as it is unless the job is suspended (spec.suspend: true)",
            cel="self.suspend || oldSelf.suspend || self.checkpoint.storage == oldSelf.checkpoint.storage",
            holds=None,
            got_cel="'another storage'",
            field=".checkpoint.storage",
        ),
    )
