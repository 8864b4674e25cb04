"""Everything a decision is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.core.capacity.typical import Assumptions
from holdfast.core.views import ClusterView, PodView


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A commit that a trainer reported."""

    step: int
    uri: str
    bytes: int
    committed_at: datetime
    took: timedelta = timedelta(0)  # from the beginning of the save to its commit


@dataclass(frozen=True, slots=True)
class Report:
    """The newest progress report of one pod; `received_at` is the operator's clock, the only one that counts."""

    pod_uid: str
    attempt: int
    received_at: datetime
    state: str  # holding | starting | training | saving | left | completed
    step: int | None = None
    first_step: int | None = None  # first step of its own that this pod ever reported, and when
    first_step_at: datetime | None = None
    step_at: datetime | None = None  # when the step last grew
    steps: int | None = None
    loss: str | None = None
    samples_per_second: str | None = None
    seconds_per_step: str | None = None
    fenced: bool = False
    resumed_step: int | None = None
    resume_note: str = ""
    checkpoint: SavedCheckpoint | None = None
    save_error: str | None = None  # why the last save failed; None once one has succeeded again
    acknowledged: int = 0
    acknowledged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server refused to create a pod of this attempt."""

    attempt: int
    at: datetime
    status: int  # HTTP
    reason: str  # of the Status object, e.g. Forbidden
    message: str


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """What the installation sets. Durations are the operator's patience, not the user's."""

    init_image: str = "holdfast.dev/init:local"
    progress_url: str | None = None
    acknowledge_timeout: timedelta = timedelta(seconds=5)
    image_pull_grace: timedelta = timedelta(minutes=10)
    start_timeout: timedelta = timedelta(minutes=30)
    missing_after: timedelta = timedelta(seconds=5)  # a pod that we created is missing if it is not seen for so long
    unmatched_acquire_timeout: timedelta = timedelta(minutes=15)
    config_error_grace: timedelta = timedelta(seconds=30)  # a Secret may be applied a moment after the job
    silent_settle: timedelta = timedelta(milliseconds=500)  # lets a mass outage show itself before one node is judged
    # A silent node is held while a report is younger than this, or, if nothing fences the pod, its silence is.
    silent_hold: timedelta = timedelta(seconds=35)
    outage_hold: timedelta = timedelta(minutes=10)  # how long many nodes may be silent together before one is given up
    unreported_after: timedelta = timedelta(minutes=2)  # silence of a trainer after which people are told
    end_margin: timedelta = timedelta(seconds=30)  # how long after grace or notice an end may still be reported
    leave_margin: timedelta = timedelta(seconds=10)  # what must be left of a notice when the last save is done
    probe_every: timedelta = timedelta(minutes=10)  # how long after a vain one a better tier is tried again
    backoff_base: timedelta = timedelta(seconds=10)
    backoff_limit: timedelta = timedelta(minutes=5)
    status_interval: timedelta = timedelta(seconds=15)  # progress goes to status at most this often a job
    assumed: Assumptions = field(default_factory=Assumptions)  # by capacity policies, before anything was measured


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job and what surrounds it, at one moment."""

    now: datetime
    job: TrainingJob
    pods: tuple[PodView, ...] = ()  # every pod that carries the job's UID, ended ones included
    cluster: ClusterView = field(default_factory=ClusterView)
    reports: Mapping[str, Report] = field(default_factory=dict)  # by pod UID
    profile: CapacityProfile | None = None  # None also if capacity.profile names one that is not there
    refusal: Refusal | None = None
    listening_since: datetime | None = None  # when this operator began to take reports
    progress_slot: bool = True  # the cluster-wide limit of progress writes leaves room for one now
    config: OperatorConfig = field(default_factory=OperatorConfig)
    grid: tuple[ProfileTier, ...] = field(init=False, repr=False, compare=False)
    """The tiers that the job may use, best first; empty if its profile is not there."""

    def __post_init__(self) -> None:
        capacity = self.job.spec.capacity
        if capacity.profile is None:  # inline tiers, in the shape of a profile's; made once, for it is asked for often
            tiers = tuple([ProfileTier(**dict(tier)) for tier in capacity.tiers])
        else:
            tiers = self.profile.spec.tiers if self.profile else ()
        object.__setattr__(self, "grid", tiers)
