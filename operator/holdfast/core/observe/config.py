"""What the installation sets, and what is assumed where nothing was measured."""

from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is reckoned with where nothing was measured. A world with another pace of life has others."""

    asking: timedelta = timedelta(minutes=1)  # for a node, where nobody has got one yet; no pod is judged before
    starting: timedelta = timedelta(minutes=3)  # from the node to the first step
    starting_at_worst: timedelta = timedelta(minutes=15)
    unnoticed: timedelta = timedelta(seconds=90)  # until a node that fell silent is called lost
    unasked: timedelta = timedelta(minutes=1)  # a policy that is due, as while an operator is replaced
    spot_life: timedelta = timedelta(hours=2)  # of a node, before any was lost
    other_life: timedelta = timedelta(days=30)


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
