"""The spec of a TrainingJob: what a researcher writes. trainer.py has the part that says what runs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from holdfast.api.every import Every, cel_instant, no_period
from holdfast.api.failure import Failure
from holdfast.api.knowledge import MAX_TIERS
from holdfast.api.model import Model
from holdfast.api.names import CODE_PATH
from holdfast.api.profile import Tier, Toleration
from holdfast.api.resumption import Resume
from holdfast.api.rules import KeyedBy, Rule, exactly_one
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
from holdfast.api.storage import Storage
from holdfast.api.strings import (
    MetricName,
    MountPath,
    ObjectName,
    PathPattern,
    ProgressPattern,
)
from holdfast.api.trainer import Trainer

Policy = Literal["Ordered", "Cheapest", "Deadline"]
ReturnPolicy = Literal["Never", "Eager", "Slack"]
PutBack = Literal["All", "Newest"]


# Distributions taint their control plane by its roles: control-plane, controlplane, master, etcd; some by the add-ons
# that may run there.
_ROLE: Final = "node-role.kubernetes.io/"
_ADD_ONS: Final = "CriticalAddonsOnly"
_IS_OPEN: Final = f"has(t.key) ? !t.key.startsWith('{_ROLE}') && t.key != '{_ADD_ONS}' : t.operator != 'Exists'"


def _too_wide(capacity: "Capacity") -> str | None:
    """The name of the first tier that tolerates what only an administrator may let a tier tolerate."""
    for tier in capacity.tiers:
        if any(map(_is_wide, tier.tolerations)):
            return tier.name
    return None


def _is_wide(toleration: Toleration) -> bool:
    if toleration.key is None:
        return toleration.operator == "Exists"
    return toleration.key.startswith(_ROLE) or toleration.key == _ADD_ONS


class Capacity(Model):
    """Where the job may run: a CapacityProfile or inline tiers, exactly one of the two."""

    profile: ObjectName | None = None
    """Name of a CapacityProfile. The job may use all tiers of this profile."""
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=MAX_TIERS), KeyedBy("name")] = ()
    """The tiers that this job may use, best first."""
    policy: Policy = "Ordered"
    """How the next tier is chosen. Ordered: every attempt tries the tiers in their order; a tier on which attempts lose
    their nodes before they make progress is left out for a while. Cheapest: the available tier
    with the lowest expected cost of a step, computed from its price, pace, starts and interruptions. Deadline: the
    lowest cost that still meets the deadline; needs the field deadline, goal.steps or a trainer that reports its goal,
    and a tier of kind Dedicated. While a policy lacks what it needs, the condition PolicyFallback says so, and the
    tiers are tried in their order."""
    deadline: Moment | None = None
    """When the training must be complete, such as 2027-01-31T00:00:00Z. Policy Deadline chooses tiers to meet it; with
    the other policies it only has a condition: DeadlineAtRisk says whether the job will miss it, and by how much."""
    budget: Money | None = None
    """The most money that the job may spend on nodes, as a decimal string such as "5000". Before the job would spend
    more, it saves a checkpoint and is suspended; it resumes when the budget is raised. A tier without a price counts as
    free. Default: no limit."""
    return_policy: ReturnPolicy = "Slack"
    """When a running job moves to a better tier that is available again. Never: only after an interruption of its tier,
    or when the deadline requires it. Eager: at once. Slack: when the move is expected to save more than it costs and
    does not put the deadline at risk. To learn whether the tier is available, the job creates a pod there; this pod
    counts against quotas, and cannot start while the job uses a volume that only one node can mount."""
    max_overlap: Annotated[timedelta, DurationBounds("0s", "24h")] = timedelta(minutes=10)
    """How long an attempt and its successor may both have nodes, such as 10m. A successor that takes longer to start is
    deleted, and the next try comes later each time. With 0s a successor starts only after the attempt has ended."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("profile", "tiers"),
        Rule(
            allowed="policy Deadline needs a deadline: set one, such as 2027-01-31T00:00:00Z, or another policy",
            cel="self.policy != 'Deadline' || has(self.deadline)",
            is_met=lambda capacity: capacity.policy != "Deadline" or capacity.deadline is not None,
            got_cel="'none'",
            got=lambda _: "none",
            field=".deadline",
        ),
        Rule(
            allowed=(
                "a tier of a job cannot tolerate every taint, or those of the control plane "
                f"({_ROLE}..., {_ADD_ONS}): name the key of another taint, or let an administrator write the tier into "
                "a CapacityProfile"
            ),
            cel=(
                "!has(self.tiers) || self.tiers.all(tier, !has(tier.tolerations) || "
                f"tier.tolerations.all(t, {_IS_OPEN}))"
            ),
            is_met=lambda capacity: _too_wide(capacity) is None,
            got=lambda capacity: f"tier {_too_wide(capacity)}",
            field=".tiers",
        ),
    )


class Best(Model):
    """Keeps the best checkpoints by a metric that the program reports."""

    count: Annotated[Count, Field(ge=1, le=1000)] = 1
    """How many of the best checkpoints are kept."""
    metric: MetricName
    """Name under which the program reports the metric, such as loss or eval/accuracy. A checkpoint that lacks
    the metric, or whose value is not a finite number, never counts as one of the best."""
    mode: Literal["Min", "Max"]
    """Min: the lowest values are the best. Max: the highest values are the best."""


class Keep(Model):
    """Which checkpoints are kept, and whether logs are. A checkpoint is kept if last, every or best keeps it."""

    last: Annotated[Count, Field(ge=1, le=1000)] = 3
    """How many of the newest verified checkpoints are kept."""
    every: Annotated[timedelta, DurationBounds("1m", "365d")] | None = None
    """Keep one checkpoint per period of this length forever, such as 24h. Default: none."""
    best: Best | None = None
    """Also keep the best checkpoints by a metric. Default: none."""
    logs: Flag = True
    """Keep the last 16 MiB that each pod writes to its log beside the checkpoints, compressed: holdfast logs shows them
    when the pod is gone. Everybody who may read the checkpoints may read them."""


def _shorter_than_every(checkpoint: "Checkpoint") -> bool:
    period, most = checkpoint.every.period, checkpoint.max_lost_work
    return period is not None and most is not None and most < period


_RESERVED = ("holdfast", "dev", "proc", "sys")
_LONG_ENOUGH = f"{cel_instant('self.maxLostWork')} >= {cel_instant('self.every')}"


def _needs_folder(field: str, is_unset: str, got_cel: str, got: Callable[["Checkpoint"], str]) -> Rule:
    """The rule that a field needs the field folder. `is_unset`: CEL that is true if it is not set; `got`: "" then."""
    return Rule(
        allowed=f"{field} needs folder: set folder to the path into which the program writes its saves",
        cel=f"{is_unset} || has(self.folder)",
        is_met=lambda checkpoint: not got(checkpoint) or checkpoint.folder is not None,
        got_cel=got_cel,
        got=got,
        field=f".{field}",
    )


class Checkpoint(Model):
    """How checkpoints are saved, kept and resumed from."""

    storage: Storage
    """Where checkpoints are stored. It can only be changed while the job is suspended. The other fields of checkpoint
    can be changed at any time. Pods take a change from the next attempt on; the condition SettingsPending says so."""
    folder: MountPath | None = None
    """Folder in the trainer, such as /outputs, into which a program writes that knows nothing of Holdfast. A process
    beside the program commits the whole folder when the program has written a save, and puts it back in place before
    the program starts. With several nodes there is one such process, and one folder, on each of them, and they commit
    together. The program decides how often it saves. Default: the program saves with holdfast_train."""
    exclude: Annotated[tuple[PathPattern, ...], Field(max_length=64)] = ()
    """What in the field folder is neither committed nor put back: names, such as wandb, or paths below it, such as
    run-*/tmp. A * stands for any text, also with slashes. A folder that matches is left out with all that is in it.
    Default: only caches, and what is not a file, such as a socket."""
    put_back: PutBack = "All"
    """What a start puts back into the field folder. All: every file of the newest commit. Newest: the newest save, with
    what its state files name, such as the best model, and all files outside of older saves; older saves stay in the
    storage. The program finds fewer of its saves then, and starts sooner."""
    pattern: PathPattern | None = None
    """Which files or folders in the field folder are saves, such as run-*/step-*; each match is one. It decides what
    HOLDFAST_NEWEST_CHECKPOINT names and which step a commit has; all other files are committed too. Default: what the
    content of the files says."""
    every: Every = Every(period=timedelta(minutes=10))
    """How often to save: a number of steps such as 500 steps, a duration such as 10m, or auto. With auto, Daly's
    formula chooses the interval that loses the least time, from the measured time of a save and the interruption rate
    of the tier; the interval is at most one hour, unless saving would then take more than 5% of the time."""
    max_lost_work: Annotated[timedelta, DurationBounds("1s", "7d")] | None = None
    """The most training time that an interruption may cost, such as 15m: from one save until the next one is committed.
    If needed, the job saves more often than the field every says. If the storage is too slow for this limit, each save
    starts as soon as the previous one is complete. Default: no limit."""
    upload_rate: Quantity | None = None
    """The most bytes per second that each pod uploads while it trains, such as 300M; at least 1M. Set it if training
    needs the network. A pod that drains saves without this limit. Default: no limit."""
    peers: Flag = False
    """True: with several nodes, each rank also sends what a save has copied to the memory of another node. Then losing
    one node costs no step that was copied, even if the storage does not have all of it yet. Each node
    needs memory for two more copies of a node's part of the state. The cluster's feature gate PeerCopies must be on;
    while it is off, training runs without these copies, and the condition FeatureOff says so."""
    keep: Keep = Keep()
    """Which checkpoints are kept."""
    grace_period: Annotated[timedelta, DurationBounds("1s", "1h")] = timedelta(seconds=100)
    """How long a pod may take to save after it is ordered to leave, such as 100s."""
    resume: Resume = "Auto"
    """Where the first attempt starts. Auto: from the newest checkpoint in the storage. Never: from the beginning. Or
    the address of one checkpoint, such as s3://bucket/prefix/name. Or a warm start: an object with the fields from, an
    address, and only, names of objects such as model. Then training starts at step 0 with these objects of that
    checkpoint; the optimizer, the schedule, the position in the data and all other objects start again."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="maxLostWork must be at least as long as every: set every to auto, or to at most maxLostWork",
            cel=f"!has(self.maxLostWork) || {no_period('self.every')} || {_LONG_ENOUGH}",
            is_met=lambda checkpoint: not _shorter_than_every(checkpoint),
            got_cel="self.maxLostWork + ' with every ' + self.every",
            got=lambda checkpoint: f"{format_duration(checkpoint.max_lost_work)} with every {checkpoint.every}",
            field=".maxLostWork",
        ),
        Rule(
            allowed="uploadRate must be at least 1M (bytes a second)",
            cel="!has(self.uploadRate) || quantity(string(self.uploadRate)).compareTo(quantity('1M')) >= 0",
            is_met=lambda checkpoint: checkpoint.upload_rate is None or quantity_value(checkpoint.upload_rate) >= 10**6,
            got_cel="string(self.uploadRate)",
            got=lambda checkpoint: str(checkpoint.upload_rate),
            field=".uploadRate",
        ),
        Rule(
            allowed="/holdfast, /dev, /proc, /sys and all paths below them cannot be the folder: choose another path",
            cel="!has(self.folder) || !self.folder.matches('^/(holdfast|dev|proc|sys)(/.*)?$')",
            is_met=lambda checkpoint: (checkpoint.folder or "/-").split("/")[1] not in _RESERVED,
            got_cel="self.folder",
            got=lambda checkpoint: checkpoint.folder,
            field=".folder",
        ),
        _needs_folder("pattern", "!has(self.pattern)", "self.pattern", lambda checkpoint: checkpoint.pattern or ""),
        _needs_folder(
            "exclude",
            "!has(self.exclude) || self.exclude.size() == 0",
            "self.exclude.join(', ')",
            lambda one: ", ".join(one.exclude),
        ),
        _needs_folder(
            "putBack",
            "self.putBack == 'All'",
            "self.putBack",
            lambda one: "" if one.put_back == "All" else one.put_back,
        ),
        Rule(
            allowed="maxLostWork does not go with folder, because the program decides how often it saves: leave it out",
            cel="!has(self.maxLostWork) || !has(self.folder)",
            is_met=lambda checkpoint: checkpoint.max_lost_work is None or checkpoint.folder is None,
            got_cel="self.maxLostWork",
            got=lambda checkpoint: format_duration(checkpoint.max_lost_work),
            field=".maxLostWork",
        ),
    )


class Goal(Model):
    """The length of the training, for percent and ETA. The job completes when its program exits with code 0."""

    steps: Annotated[int, Field(strict=True, ge=1, le=2**53 - 1)] | None = None
    """Number of steps of the whole training. If it is changed while a program trains that can save, the attempt saves
    and leaves, and the next one has the new goal. Default: the number that the trainer reports."""


class Progress(Model):
    """Where progress comes from if the program does not report it, neither with a Run nor by Kubeflow's protocol."""

    patterns: Annotated[tuple[ProgressPattern, ...], Field(max_length=8)] = ()
    """Lines that the program prints, with the places of the numbers, such as step {step}/{total} loss={loss}. The
    placeholders are {step}, {total}, {loss} and {grad_norm}. A program that counts its steps from 0 in each epoch has
    {epoch_step}, {epoch_steps}, and {epoch} or {epoch_from_1}, whose first epoch is 0 or 1; {epochs} is their number. A
    * stands for any text, blanks for any number of blanks, and {{ and }} for braces. tqdm and lightning stand for
    progress bars of these libraries. A change counts from the next attempt on. Default: none."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed=(
                "{epoch_step}, {epoch_steps}, and {epoch} or {epoch_from_1} go together: add what is missing, or use "
                "{step}"
            ),
            cel=(
                "!has(self.patterns) || !self.patterns.exists(p, p.contains('{epoch')) || "
                "(self.patterns.exists(p, p.contains('{epoch_step}')) && "
                "self.patterns.exists(p, p.contains('{epoch_steps}')) && "
                "self.patterns.exists(p, p.contains('{epoch}') || p.contains('{epoch_from_1}')))"
            ),
            is_met=lambda progress: _tells_its_epoch(progress.patterns),
            got_cel="self.patterns.join(', ')",
            got=lambda progress: ", ".join(progress.patterns),
            field=".patterns",
        ),
    )


def _tells_its_epoch(patterns: tuple[str, ...]) -> bool:
    """False if some of the numbers are read that make the step of a training with epochs, and others are not."""
    together = "\n".join(patterns)
    epoch = "{epoch}" in together or "{epoch_from_1}" in together
    return "{epoch" not in together or (epoch and "{epoch_step}" in together and "{epoch_steps}" in together)


def _missing_accelerators(spec: "TrainingJobSpec") -> list[str]:
    if spec.trainer.accelerators_per_node == 0:
        return []
    return [tier.name for tier in spec.capacity.tiers if tier.kind != "CPU" and tier.accelerator is None]


_NAMELESS = "self.capacity.tiers.filter(t, t.kind != 'CPU' && !has(t.accelerator))"


class TrainingJobSpec(Model):
    """What the user wants to train, where, and how it is saved."""

    trainer: Trainer
    """The program that runs. It can only be changed while the job is suspended."""
    capacity: Capacity
    """Where the job may run."""
    checkpoint: Checkpoint
    """How checkpoints are saved, kept and resumed from."""
    goal: Goal = Goal()
    """The length of the training, for percent and ETA."""
    progress: Progress = Progress()
    """Where progress comes from if the program does not report it."""
    failure: Failure = Failure()
    """How many failures of the program end the job."""
    suspend: Flag = False
    """True: the job saves a checkpoint, releases its nodes and waits. False: the job runs, or resumes."""
    active_deadline: Annotated[timedelta, DurationBounds("1m")] | None = None
    """The job fails after it has been active for this long, such as 90d. Time while suspended does not count. Default:
    no limit."""
    ttl_after_finished: Duration | None = None
    """How long after its end the job is deleted, such as 7d. Its checkpoints stay. Default: never."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="a Spot or Dedicated tier must set accelerator if trainer.acceleratorsPerNode is above 0",
            cel=f"self.trainer.acceleratorsPerNode == 0 || !has(self.capacity.tiers) || {_NAMELESS}.size() == 0",
            is_met=lambda spec: not _missing_accelerators(spec),
            got=lambda spec: "no accelerator in " + _missing_accelerators(spec)[0],
            field=".capacity.tiers",
        ),
        Rule(
            allowed="checkpoint.peers needs several nodes: set trainer.nodes to 2 or more, or leave peers out",
            cel="!self.checkpoint.peers || self.trainer.nodes > 1",
            is_met=lambda spec: not spec.checkpoint.peers or spec.trainer.nodes > 1,
            got=lambda spec: f"{spec.trainer.nodes} node",
            field=".checkpoint.peers",
        ),
        Rule(
            allowed=f"{CODE_PATH} has the files of trainer.code: choose a folder below it, such as {CODE_PATH}/outputs",
            cel=f"!has(self.trainer.code) || !has(self.checkpoint.folder) || self.checkpoint.folder != '{CODE_PATH}'",
            is_met=lambda spec: spec.trainer.code is None or spec.checkpoint.folder != CODE_PATH,
            got_cel="self.checkpoint.folder",
            got=lambda spec: spec.checkpoint.folder,
            field=".checkpoint.folder",
        ),
        Rule(
            allowed="trainer must not change while the job runs: suspend the job first (spec.suspend: true)",
            cel="self.suspend || oldSelf.suspend || self.trainer == oldSelf.trainer",
            is_met=None,
            got_cel="'another trainer (image ' + self.trainer.image + ')'",
            field=".trainer",
        ),
        Rule(
            allowed="checkpoint.storage must not change while the job runs: suspend the job first (spec.suspend: true)",
            cel="self.suspend || oldSelf.suspend || self.checkpoint.storage == oldSelf.checkpoint.storage",
            is_met=None,
            got_cel="'another storage'",
            field=".checkpoint.storage",
        ),
    )
