"""Settings of the installation, and the assumptions of policies before anything was measured."""

from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What policies assume before anything was measured. Simulations and tests use other values."""

    acquire_time: timedelta = timedelta(
        minutes=1
    )  # until a pod gets a node; a shorter wait never shows that a tier is out
    start_time: timedelta = timedelta(minutes=3)  # from the node to the first step
    worst_start_time: timedelta = timedelta(minutes=15)
    interruption_detection: timedelta = timedelta(seconds=90)  # from the failure of a node until it counts as lost
    decision_gap: timedelta = timedelta(minutes=1)  # longest time without a decision, as while the operator is replaced
    spot_lifetime: timedelta = timedelta(hours=2)  # of a Spot node, before any was lost
    other_lifetime: timedelta = timedelta(days=30)  # of a node that is not Spot


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Settings of the installation. Durations are for how long the operator waits, not limits for the user."""

    init_image: str = "holdfast.dev/init:local"
    progress_url: str | None = None
    gates: frozenset[str] = frozenset()  # names of the feature gates that are on
    acknowledge_timeout: timedelta = timedelta(seconds=5)
    image_pull_grace: timedelta = timedelta(minutes=10)
    image_refused_grace: timedelta = timedelta(minutes=2)  # a new node's credentials for the registry may come late
    prepare_grace: timedelta = timedelta(seconds=15)  # volumes and network of a pod are there by then
    inspect_every: timedelta = timedelta(minutes=1)  # how often the warnings about a pod in trouble are read
    start_timeout: timedelta = timedelta(minutes=30)
    missing_after: timedelta = timedelta(seconds=5)  # a created pod that is not seen for so long is missing
    unmatched_acquire_timeout: timedelta = timedelta(minutes=15)
    placing_timeout: timedelta = timedelta(
        seconds=20
    )  # the scheduler finds nodes that are free within this; then a part of several is given back
    config_error_grace: timedelta = timedelta(seconds=30)  # a Secret may be applied a moment after the job
    silent_settle: timedelta = timedelta(
        milliseconds=500
    )  # one silent node is judged only after this, so that an outage of many nodes shows first
    # A pod on a silent node is kept while its newest report is younger than this. If no fence makes the pod
    # harmless, it is kept while the node's silence is younger than this.
    silent_timeout: timedelta = timedelta(seconds=35)
    outage_timeout: timedelta = timedelta(
        minutes=10
    )  # how long many nodes may be silent together before one is given up
    unreported_after: timedelta = timedelta(minutes=2)  # silence of a trainer until ProgressUnreachable is set
    end_margin: timedelta = timedelta(
        seconds=30
    )  # how long after the grace period or the notice an end may still be reported
    leave_margin: timedelta = timedelta(seconds=10)  # what must remain of a notice when the last save is done
    probe_every: timedelta = timedelta(minutes=10)  # how long after a refusal a better tier is tried again
    backoff_base: timedelta = timedelta(seconds=10)
    backoff_limit: timedelta = timedelta(minutes=5)
    outage_backoff_limit: timedelta = timedelta(hours=1)  # after many interruptions in a row that the platform caused
    rest_base: timedelta = timedelta(
        minutes=10
    )  # how long a tier rests on which three attempts in a row were fruitless
    rest_limit: timedelta = timedelta(hours=2)  # the rest doubles up to this with each further fruitless attempt
    status_interval: timedelta = timedelta(seconds=15)  # progress is written to a job's status at most this often
    look_again: timedelta = timedelta(hours=1)  # a job that is not over is decided again after this at the latest
    assumed: Assumptions = field(default_factory=Assumptions)  # of capacity policies, before anything was measured
