"""The status of a TrainingJob. It is the operator's memory: everything that a decision needs and the cluster lacks.

attempt.py has the attempts and their records.
"""

from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from holdfast.api.attempt import Attempt, AttemptRecord, Message, Name, Number, Reason, Recovery
from holdfast.api.figure_fields import FigureFields
from holdfast.api.knowledge import MAX_TIERS, TierKnowledge
from holdfast.api.model import Model
from holdfast.api.profile import TierKind
from holdfast.api.rules import KeyedBy
from holdfast.api.scalars import Clip, Count, Duration, Flag, Hours, Money, Step, Time
from holdfast_protocol.report import MAX_METRICS
from holdfast_protocol.tracking import MAX_TRACKERS, MAX_URL, TRACKER_NAME, URL_FORM

MAX_HISTORY = 20
MAX_CONDITIONS = 24
MAX_FAILURES_REMEMBERED = 128


class Phase(StrEnum):
    """The phase of a job, for people. Completed and Failed are final."""

    SUSPENDED = "Suspended"
    ACQUIRING = "Acquiring"  # a pod waits for a node
    STARTING = "Starting"  # the pod has a node: image, init container, restore
    RUNNING = "Running"
    MIGRATING = "Migrating"  # the pod is ordered to save and leave; the next attempt is decided
    RECOVERING = "Recovering"  # nothing runs: the job waits for a back-off, or until a lost pod is gone
    COMPLETED = "Completed"
    FAILED = "Failed"

    @property
    def final(self) -> bool:
        """True if the job has ended and never runs again."""
        return self in _FINAL


_FINAL = (Phase.COMPLETED, Phase.FAILED)


class Condition(Model):
    """A condition, as in every Kubernetes API."""

    type: Reason
    """Name of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Whether the condition is true."""
    reason: Reason
    """Reason for the status, in one CamelCase word."""
    message: Message = ""
    """Reason for the status, in words."""
    last_transition_time: Time
    """When the status changed."""
    observed_generation: Step = 0
    """Generation of the job that the condition describes."""


class DecisionNote(Model):
    """The last choice of the operator."""

    action: Reason
    """What the operator did, in one CamelCase word."""
    message: Message
    """Why the operator did it, in words."""
    at: Time
    """When the operator did it."""


class MetricValue(Model):
    """A metric that the program reported."""

    name: Annotated[str, Clip(64)]
    """Name of the metric, such as accuracy."""
    value: Number
    """Newest value, a decimal string, nan, inf or -inf."""


class Progress(FigureFields):
    """The newest progress that the trainer reported."""

    step: Step = 0
    """Newest step."""
    steps: Step | None = None
    """Number of steps of the whole training."""
    percent: Number | None = None
    """Percent of the steps that are done, a decimal string."""
    eta: Time | None = None
    """When the training will be complete at the current pace."""
    metrics: Annotated[tuple[MetricValue, ...], Field(max_length=MAX_METRICS), KeyedBy("name")] = ()
    """Other metrics that the program reports."""
    updated_at: Time | None = None
    """When the trainer reported this."""


class TrackerRun(Model):
    """The run of the job in an experiment tracker."""

    tracker: Annotated[str, Field(max_length=32, pattern=f"^{TRACKER_NAME.pattern}$")]
    """The tracker: mlflow or wandb."""
    url: Annotated[str, Field(max_length=MAX_URL, pattern=f"^{URL_FORM}$")]
    """Web address of the run, without user information and query."""


class CheckpointStatus(Model):
    """The newest committed checkpoint."""

    step: Step | None = None
    """Step at which the checkpoint was saved. Not set if nothing says the step of a folder."""
    uri: Annotated[str, Clip(2048)]
    """Address of the checkpoint."""
    bytes: Step = 0
    """Size of the checkpoint in bytes."""
    committed_at: Time
    """When the checkpoint was committed."""
    verified: Flag = True
    """True if the checksums of the checkpoint were verified."""


class Restarts(Model):
    """How many attempts ended early, by cause."""

    interruptions: Count = 0
    """Attempts that ended by a preemption, an eviction, a lost node or another fault of the cluster."""
    infrastructure: Count = 0
    """Attempts that ended because the cluster or the storage failed, without a preemption or eviction."""
    failures: Count = 0
    """Attempts that ended by an error of the program. spec.failure limits them."""


class TierTotals(Model):
    """Totals of the attempts of one tier that had a node and have ended."""

    tier: Name
    """Name of the tier."""
    kind: TierKind
    """Kind of the tier."""
    attempts: Count = 0
    """Number of attempts."""
    node_hours: Hours = Decimal(0)
    """Hours of node time of these attempts."""
    spent: Money = Decimal(0)
    """Money for that node time."""
    estimated: Money = Decimal(0)
    """Part of that money that is an estimate, because the end of the attempt was not observed."""
    steps_trained: Step = 0
    """Steps that these attempts trained."""
    steps_lost: Step = 0
    """Steps of these attempts that a later attempt trained again."""
    training: Duration = timedelta(0)
    """Time from the first to the last step, summed over these attempts."""
    training_hours: Hours = Decimal(0)
    """The same time in hours, each attempt's multiplied by the number of its nodes."""


class Ledger(Model):
    """What the job has cost, and what interruptions have cost it."""

    folded_through: Count = 0
    """Number of the newest attempt that is in the totals and no longer in history."""
    attempts: Count = 0
    """Number of attempts that have ended."""
    by_tier: Annotated[tuple[TierTotals, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """Totals of the attempts that have ended, by tier."""
    spent: Money = Decimal(0)
    """Money spent on nodes so far, including the current attempt up to the time of this status."""
    saved_versus_dedicated: Number | None = None
    """Money saved: the cost of the same steps on the cheapest dedicated tier of the grid, at the pace of the
    accelerators that were used, minus the money spent. A decimal string, negative if more was spent."""
    goodput: Number | None = None
    """Time in steps that were not lost, divided by the time since a trainer first ran without suspensions; 0 to 1, a
    decimal string. Not set before the program has reported two steps."""
    ran_at: Time | None = None
    """When a trainer first ran."""
    steps_lost: Step = 0
    """Steps that were trained again after an interruption."""
    uncounted_restarts: Count = 0
    """Restarts after which it is not known how many steps were trained again, because the program does not use
    Holdfast's checkpoints, or because history is full of attempts without a step since then. If there are any, goodput
    and savedVersusDedicated are not set."""
    seconds_lost: Duration = timedelta(0)
    """Time from the last step of each attempt to the first step of the next one, summed."""
    recovery: Recovery = Recovery()
    """The same time by phase, and the time to train lost steps again."""


class Forecast(Model):
    """Expected cost and slack of the job at the time of this status."""

    cost: Money | None = None
    """Expected cost of the whole job, if it stays on its tier with the starts and interruptions that are usual
    there."""
    slack: Duration | None = None
    """Time that may be lost before only the most dependable tier can meet the deadline."""
    late: Duration | None = None
    """Expected delay behind the deadline if no further interruption comes. Not set if the deadline can be met."""
    at: Time | None = None
    """Time of the value in slack. While nothing trains, the slack shrinks from this time on."""


class Requests(Model):
    """Requests that users made by annotation and that were handled."""

    checkpoint: Name | None = None
    """Id of the last request to save a checkpoint."""
    move: Name | None = None
    """Id of the last request to move to another tier."""
    orders: Step = 0
    """Id of the newest order to a pod."""
    checkpoint_order: Step | None = None
    """Id of the order to save that is still open."""


class Misconfigured(Model):
    """Why no attempt of the job can work until a person corrects something."""

    reason: Reason
    """Why the last attempt ended, in one CamelCase word."""
    message: Message = ""
    """Why the last attempt ended, in words."""
    tier: Name
    """Tier of that attempt."""
    pods: Name
    """Digest of all that the pods of that attempt were made from. Once other pods would be made, the job goes on."""
    at: Time
    """When that attempt ended."""


class TrainingJobStatus(Model):
    """State of the job. Only Holdfast writes it."""

    observed_generation: Step = 0
    """Generation of the job that this status describes."""
    phase: Phase | None = None
    """Phase of the job. Completed and Failed are final."""
    phase_since: Time | None = None
    """When the job entered its phase."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS), KeyedBy("type")] = ()
    """Conditions of the job: Complete, Failed and Suspended as in a Kubernetes Job, and conditions of Holdfast."""
    attempt: Count = 0
    """Number of the newest attempt. It only grows."""
    current: Attempt | None = None
    """The attempt that trains, or will train next."""
    successor: Attempt | None = None
    """The attempt that starts while the current one still runs."""
    tier: Name | None = None
    """Tier of the current attempt."""
    node: Name | None = None
    """Node of the current attempt; with several nodes, the one of rank 0."""
    ready_nodes: Name | None = None
    """Nodes of the current attempt that are ready, of all that it needs, such as 3/4. Only with several nodes."""
    ready_nodes_at: Time | None = None
    """When `readyNodes` was written. While nodes come one by one, it is written at most every 5 seconds."""
    reason: Reason | None = None
    """Why the job is in its phase, in one CamelCase word."""
    decision: DecisionNote | None = None
    """The last choice of the operator."""
    next: Message | None = None
    """What the operator waits for, and what it does then, in words."""
    progress: Progress = Progress()
    """The newest progress that the trainer reported."""
    checkpoint: CheckpointStatus | None = None
    """The newest committed checkpoint."""
    tracking: Annotated[tuple[TrackerRun, ...], Field(max_length=MAX_TRACKERS), KeyedBy("tracker")] = ()
    """The run of the job in each experiment tracker whose address is known. All attempts log into it."""
    restarts: Restarts = Restarts()
    """How many attempts ended early, by cause."""
    failed_at: Annotated[tuple[Time, ...], Field(max_length=MAX_FAILURES_REMEMBERED)] = ()
    """Times of the failures within spec.failure.window."""
    fruitless_interruptions: Count = 0
    """Number of interruptions in a row without a single step between them."""
    fruitless_attempts: Count = 0
    """Number of attempts in a row that were interrupted or failed without progress. spec.failure.maxFruitless limits
    it."""
    fenced_program: Name | None = None
    """Digest of spec.trainer, spec.checkpoint.storage and spec.checkpoint.folder with which an attempt has held the
    storage fence: its program uses Holdfast's checkpoints. Another program has yet to show that it does."""
    ledger: Ledger = Ledger()
    """What the job has cost, and what interruptions have cost it."""
    forecast: Forecast = Forecast()
    """Expected cost and slack of the job."""
    history: Annotated[tuple[AttemptRecord, ...], Field(max_length=MAX_HISTORY), KeyedBy("number")] = ()
    """The last attempts that have ended, oldest first."""
    tiers: Annotated[tuple[TierKnowledge, ...], Field(max_length=MAX_TIERS), KeyedBy("tier")] = ()
    """What the job's own attempts observed of the tiers."""
    requests: Requests = Requests()
    """Requests that users made by annotation and that were handled."""
    started_at: Time | None = None
    """When the first attempt was decided. spec.activeDeadline counts from this time."""
    suspended_at: Time | None = None
    """When the current suspension began. Not set if the job is not suspended."""
    misconfigured: Misconfigured | None = None
    """Set while the job is paused until a person corrects something. An edit of what its pods are made from ends the
    pause; so does suspending the job and resuming it, if the cause was outside of the job."""
    suspended_for: Duration = timedelta(0)
    """Total time of earlier suspensions."""
    finished_at: Time | None = None
    """When the job ended."""

    @property
    def is_over(self) -> bool:
        """True if the job has ended and never runs again."""
        return self.phase is not None and self.phase.final

    @property
    def uses_checkpoints(self) -> bool:
        """True if the program has held the storage fence. A checkpoint alone tells nothing of an edited program."""
        return self.fenced_program is not None or (self.current is not None and self.current.fenced)
