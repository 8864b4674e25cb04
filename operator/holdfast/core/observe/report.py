"""What the programs of a pod have reported: the newest of each sender, and one view of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from holdfast.core.observe.pods import PodView
from holdfast_protocol.figures import UNKNOWN, Figures
from holdfast_protocol.report import FOLDER, LIBRARY, RELAY, STAGER, Sender, State
from holdfast_protocol.tracking import MAX_TRACKERS


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A commit that a trainer reported. `step`: None if nothing says the step of a folder."""

    step: int | None
    uri: str
    bytes: int
    committed_at: datetime
    took: timedelta = timedelta(0)  # from the beginning of the save to its commit


@dataclass(frozen=True, slots=True)
class Silence:
    """A storage that does not answer the pod, since a time of the operator's clock, and what the newest call got."""

    since: datetime
    why: str


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
    """What a pod has reported; `received_at` is the operator's clock, the only one that counts.

    `senders`: the programs whose reports are in it, see `view`.
    """

    pod_uid: str
    attempt: int
    received_at: datetime
    state: State
    step: int | None = None
    first_step: int | None = None  # the first step that this pod trained, and when: from its trainer, or as first seen
    first_step_at: datetime | None = None
    step_at: datetime | None = None  # when the step last grew
    steps: int | None = None
    figures: Figures = UNKNOWN
    metrics: tuple[tuple[str, str], ...] = ()  # names and decimals, also nan, inf and -inf
    fenced: bool = False
    resumed_step: int | None = None
    resume_note: str = ""
    checkpoint: SavedCheckpoint | None = None
    save_error: str | None = None  # why the last save failed; None once one has succeeded again
    storage_silence: Silence | None = None  # the storage of checkpoints does not answer
    memory_warning: str | None = None  # why a save may get the trainer killed; None if there is memory for it
    slow_ranks: tuple[SlowRank, ...] = ()
    acknowledged: int = 0
    acknowledged_at: datetime | None = None
    tracking: tuple[tuple[str, str], ...] = ()  # trackers, and the web address of the job's run in each
    staging: Staging | None = None  # the data is copied, and no program has reported yet
    ignored_step: int | None = None  # it put this step back, and the program began at an earlier one
    put_back_without_step: bool = False  # it put back a checkpoint without a step
    senders: tuple[Sender, ...] = (LIBRARY,)

    @property
    def relayed(self) -> bool:
        """True if the launcher reports for a program without Holdfast's library: it resumes at a step of its own."""
        return RELAY in self.senders

    @property
    def cannot_save(self) -> bool:
        """True if leaving now would lose what is not saved."""
        return self.save_error is not None or self.storage_silence is not None

    @property
    def folder(self) -> bool:
        """True if the writer of checkpoint.folder put back what the program resumes from, and saves."""
        return FOLDER in self.senders


def view(reports: Mapping[Sender, Report]) -> Report:
    """One report from those of the senders of a pod; at least one has reported.

    The library knows everything. Without it, steps and figures are the relay's, and checkpoints the folder's writer's.
    The stager counts until a program has reported. Of the runs in trackers, each sender may know another one.
    """
    told = [dict(reports[sender].tracking) for sender in (RELAY, LIBRARY) if sender in reports]
    return replace(_of_program(reports), tracking=known_runs(*told))


def known_runs(*told: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Trackers with the address of a run in each; of two in the same tracker, that of the later argument."""
    found = {tracker: url for one in told for tracker, url in one.items()}
    return tuple(islice(found.items(), MAX_TRACKERS))


def _of_program(reports: Mapping[Sender, Report]) -> Report:
    """The view without the runs in trackers."""
    relay, folder = reports.get(RELAY), reports.get(FOLDER)
    if LIBRARY in reports:
        return reports[LIBRARY]
    if relay is None or folder is None:
        return relay or folder or reports[STAGER]
    newest = max(relay, folder, key=lambda report: report.received_at)
    # A program that resumed may tell the step that was put back before it trains. One that did not resume tells an
    # earlier step. Either of the two may report first.
    first = None if relay.first_step == folder.resumed_step else relay.first_step
    began_anew = first is not None and first < (folder.resumed_step or 0)
    return replace(
        folder,
        senders=(RELAY, FOLDER),
        received_at=newest.received_at,
        state=newest.state,
        step=relay.step,
        first_step=first,
        first_step_at=None if first is None else relay.first_step_at,
        step_at=relay.step_at,
        steps=relay.steps,
        figures=relay.figures,
        metrics=relay.metrics,
        resumed_step=None if began_anew else folder.resumed_step,
        ignored_step=folder.resumed_step if began_anew else None,
    )


def staging_at(reports: Mapping[str, Report], pod: PodView | None) -> datetime | None:
    """When the pod last reported that its data is copied; None if its program has reported since, or nothing has."""
    report = reports.get(pod.uid) if pod else None
    return report.received_at if report and report.staging else None
