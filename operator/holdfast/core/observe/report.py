"""The newest progress report of a pod's trainer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.core.observe.pods import PodView


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A commit that a trainer reported."""

    step: int
    uri: str
    bytes: int
    committed_at: datetime
    took: timedelta = timedelta(0)  # from the beginning of the save to its commit


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that was slow in the newest windows; times in seconds.

    `pod` is the rank of its pod. `own`: how long it works in a step before it needs the others; `others`: the median
    of the other ranks; `step`: how long a step takes.
    """

    rank: int
    pod: int
    own: float
    others: float
    step: float

    @property
    def times(self) -> float:
        """How many times as long as the others it works."""
        return self.own / max(self.others, 1e-6)

    @property
    def share(self) -> float:
        """The share of a step for which the others wait for it, from 0 to 1."""
        return min(max((self.own - self.others) / max(self.step, self.own, 1e-6), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Staging:
    """How far trainer.data is in one pod, in bytes. `over`: all of it is there, and the program starts."""

    bytes: int
    total: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The newest progress report of one pod; `received_at` is the operator's clock, the only one that counts."""

    pod_uid: str
    attempt: int
    received_at: datetime
    state: str  # waiting | starting | training | saving | left | completed
    step: int | None = None
    first_step: int | None = None  # the first step that this pod trained, and when: from its trainer, or as first seen
    first_step_at: datetime | None = None
    step_at: datetime | None = None  # when the step last grew
    steps: int | None = None
    loss: str | None = None
    samples_per_second: str | None = None
    seconds_per_step: str | None = None
    data_wait: str | None = None  # share of the newest steps' time that rank 0 waited for data, 0 to 1
    peak_memory: int | None = None  # bytes of an accelerator, of the rank that had most
    metrics: tuple[tuple[str, str], ...] = ()  # names and decimals, also nan, inf and -inf
    fenced: bool = False
    resumed_step: int | None = None
    resume_note: str = ""
    checkpoint: SavedCheckpoint | None = None
    save_error: str | None = None  # why the last save failed; None once one has succeeded again
    memory_warning: str | None = None  # why a save may get the trainer killed; None if there is memory for it
    slow_ranks: tuple[SlowRank, ...] = ()
    acknowledged: int = 0
    acknowledged_at: datetime | None = None
    relayed: bool = False  # by the launcher, for a program without Holdfast's library: it resumes at a step of its own
    folder: bool = False  # the writer of checkpoint.folder put back what the program resumes from, and saves
    staging: Staging | None = None  # the process that copies trainer.data sent this report, and no program has yet
    ignored_step: int | None = None  # it put this step back, and the program began at an earlier one
    put_back_without_step: bool = False  # it put back a checkpoint whose name says no step


def staging_at(reports: Mapping[str, Report], pod: PodView | None) -> datetime | None:
    """When the pod last reported that its data is copied; None if its program has reported since, or nothing has."""
    report = reports.get(pod.uid) if pod else None
    return report.received_at if report and report.staging else None
