"""The status of a TrainingJob. It is the operator's memory: everything a decision needs that is not in the cluster.

Its attempts and their records are in attempt.py.
"""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from holdfast.api.attempt import Attempt, AttemptRecord, Message, Name, Number, Reason, Recovery
from holdfast.api.knowledge import TierKnowledge
from holdfast.api.lists import KeyedBy
from holdfast.api.model import Model
from holdfast.api.profile import MAX_TIERS, TierKind
from holdfast.api.scalars import Clip, Count, Duration, Flag, Hours, Money, Step, Time

MAX_HISTORY = 20
MAX_CONDITIONS = 16
MAX_FAILURES_REMEMBERED = 128


class Phase(StrEnum):
    """Where a job stands, for people. Completed and Failed are final."""

    SUSPENDED = "Suspended"
    ACQUIRING = "Acquiring"  # a pod waits for a node
    STARTING = "Starting"  # a node is found; images, init, restore
    RUNNING = "Running"
    MIGRATING = "Migrating"  # the pod was told to save and leave; the next attempt is decided
    RECOVERING = "Recovering"  # nothing runs: waiting out a back-off, or for a lost pod to be gone
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        """True if the job is over for good."""
        return self in _FINAL


_FINAL = (Phase.COMPLETED, Phase.FAILED)


class Condition(Model):
    """As everywhere in Kubernetes."""

    type: Reason
    """Name of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Reason
    """Why, in one CamelCase word."""
    message: Message = ""
    """Why, for people."""
    last_transition_time: Time
    """When the status changed."""
    observed_generation: Step = 0
    """Generation of the job that this was seen for."""


class Decision(Model):
    """The last choice, in words that a person believes."""

    action: Reason
    """What was done."""
    reason: Message
    """Why."""
    at: Time
    """When."""


class Progress(Model):
    """What the trainer last said of itself."""

    step: Step = 0
    """Its newest step."""
    steps: Step | None = None
    """Steps of the whole training."""
    percent: Number | None = None
    """How much is done, a decimal string."""
    eta: Time | None = None
    """When it will be done at the present pace."""
    loss: Number | None = None
    """The training loss, a decimal string."""
    samples_per_second: Number | None = None
    """Samples a second, a decimal string."""
    updated_at: Time | None = None
    """When it was said."""


class CheckpointStatus(Model):
    """The newest committed checkpoint."""

    step: Step
    """Step that it holds."""
    uri: Annotated[str, Clip(2048)]
    """Its address."""
    bytes: Step = 0
    """Its size."""
    committed_at: Time
    """When it was committed."""
    verified: Flag = True
    """Its sums were checked."""


class Restarts(Model):
    """How often and whose fault."""

    losses: Count = 0
    """Preemptions, evictions and lost nodes: never the user's fault."""
    infrastructure: Count = 0
    """Starts that the cluster spoiled: never the user's fault."""
    failures: Count = 0
    """The program's own failures, which spec.failure counts."""


class TierTotals(Model):
    """Sums over the attempts of one tier that had a node and are over."""

    tier: Name
    """Name of the tier."""
    kind: TierKind
    """Its kind."""
    attempts: Count = 0
    """How many attempts."""
    node_hours: Hours = Decimal(0)
    """How long they had their nodes."""
    spent: Money = Decimal(0)
    """Money for that time."""
    estimated: Money = Decimal(0)
    """How much of the money is for attempts whose end nobody saw."""
    steps: Step = 0
    """How many steps they took."""
    steps_lost: Step = 0
    """How many of them were taken again by a later attempt."""
    training: Duration = timedelta(0)
    """From first to last steps."""


class Ledger(Model):
    """What the job has cost, and what interruptions cost it."""

    folded_through: Count = 0
    """The newest attempt that history no longer holds."""
    attempts: Count = 0
    """Attempts that are over."""
    by_tier: Annotated[tuple[TierTotals, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """Sums over attempts that are over, by tier."""
    spent: Money = Decimal(0)
    """Money for nodes so far; with the current attempt, up to when this was written."""
    saved_versus_dedicated: Number | None = None
    """What the same steps would have cost on the cheapest dedicated tier of the grid, at the pace of the accelerators
    that were used, less what was spent; a decimal string, negative if more was spent."""
    goodput: Number | None = None
    """Time in steps that were not lost, over all time since a trainer first ran but suspensions; a decimal string."""
    ran_at: Time | None = None
    """When a trainer first ran."""
    steps_lost: Step = 0
    """Steps that were trained twice."""
    seconds_lost: Duration = timedelta(0)
    """Time from last steps to the next attempts' first steps."""
    recovery: Recovery = Recovery()
    """The same time, split by what was done in it."""


class Forecast(Model):
    """What is to be expected, as of when this was written."""

    cost: Money | None = None
    """What the job will have cost when it is done, if it stays on its tier, with starts and losses as usual there."""
    slack: Duration | None = None
    """How much time may yet be wasted before only the surest tier makes the deadline."""
    late: Duration | None = None
    """By how much the deadline will be missed if nothing goes wrong from here on."""
    at: Time | None = None
    """When the slack was this. While nothing trains it is less by the time since."""


class Requests(Model):
    """What people asked for by annotation and was handled."""

    checkpoint: Name | None = None
    """Id of the last request for a checkpoint."""
    move: Name | None = None
    """Id of the last request to move."""
    orders: Step = 0
    """Newest order id given out."""
    checkpoint_order: Step | None = None
    """The order to save that is still open."""


class TrainingJobStatus(Model):
    """Everything that is known of a job. Holdfast writes it, nobody else."""

    observed_generation: Step = 0
    """Generation of the job that this was written for."""
    phase: Phase | None = None
    """Where the job stands; Completed and Failed are final."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS), KeyedBy("type")] = ()
    """The words of Job (Complete, Failed, Suspended), and more."""
    attempt: Count = 0
    """Newest attempt raised; only grows."""
    current: Attempt | None = None
    """The attempt that trains or is about to."""
    successor: Attempt | None = None
    """The attempt that is brought up while the current one still runs."""
    tier: Name | None = None
    """Tier of the current attempt."""
    node: Name | None = None
    """Node of the current attempt."""
    reason: Message | None = None
    """Why the job stands where it stands, for people."""
    decision: Decision | None = None
    """The last choice."""
    progress: Progress = Progress()
    """What the trainer last said of itself."""
    checkpoint: CheckpointStatus | None = None
    """The newest committed checkpoint."""
    restarts: Restarts = Restarts()
    """How often it was started again, and whose fault that was."""
    failed_at: Annotated[tuple[Time, ...], Field(max_length=MAX_FAILURES_REMEMBERED)] = ()
    """Failures inside spec.failure.window."""
    fruitless_losses: Count = 0
    """Losses in a row without a single step."""
    library: Flag = False
    """The program uses Holdfast's checkpoints: one of its attempts held the storage fence."""
    ledger: Ledger = Ledger()
    """Sums over attempts that are over."""
    forecast: Forecast = Forecast()
    """What is to be expected: cost and slack."""
    history: Annotated[tuple[AttemptRecord, ...], Field(max_length=MAX_HISTORY), KeyedBy("number")] = ()
    """The last attempts that are over, oldest first."""
    tiers: Annotated[tuple[TierKnowledge, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """What the job's own attempts found out about the tiers."""
    requests: Requests = Requests()
    """What people asked for and was handled."""
    started_at: Time | None = None
    """When the first attempt was decided on; spec.activeDeadline counts from here."""
    suspended_at: Time | None = None
    """Since when it is suspended."""
    suspended_for: Duration = timedelta(0)
    """How long it was suspended before."""
    finished_at: Time | None = None
    """When it ended."""
