"""What `holdfast watch` shows: one job with its Events, or all jobs of a namespace."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from holdfast.api.errors import SpecError
from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs import view
from holdfast_cli.terminal import formats

_OVER: Final = frozenset(str(phase) for phase in Phase if phase.final)
_AROUND_ROWS: Final = 3  # lines of a table of jobs that are not jobs: titles, rule, and the jobs that are left out

Raw = Mapping[str, Any]


class Watched(Protocol):
    """Something that is watched. `lists` are what it is drawn from."""

    lists: tuple[LiveList, ...]

    @property
    def job(self) -> TrainingJob | None:
        """The one watched job; None if all are watched. Raises CliError if it was deleted."""

    def draw(self, room: int | None) -> RenderableType:
        """The picture of now, in at most `room` lines; None is without a limit."""

    def news(self) -> list[str]:
        """Plain lines about what has changed since the last call."""


class OneJob:
    """One job and its Events."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        only = {"fieldSelector": f"metadata.name={name}"}
        self._jobs = LiveList(client, job_api.jobs_path(namespace), only)
        self._events = LiveList(client, job_api.events_path(namespace), job_api.about(name))
        self.lists: tuple[LiveList, ...] = (self._jobs, self._events)
        self._name = name
        self.losses = view.Losses()
        self._shown: dict[str, int] = {}
        self._state = ""

    @property
    def job(self) -> TrainingJob:
        """The job. Raises CliError if it was deleted."""
        found = next((raw for raw in self._jobs.objects if raw["metadata"]["name"] == self._name), None)
        if found is None:
            raise CliError("the job was deleted", code=ExitCode.NOT_FOUND)
        return TrainingJob.parse(found)

    def draw(self, room: int | None) -> RenderableType:
        """The screen of the job."""
        job = self.job
        self.losses.see(job.status.progress.step, job.status.progress.loss)
        return view.job_screen(job, self._lines(job), datetime.now(UTC), self.losses, room)

    def news(self) -> list[str]:
        """New Events, and the state if it has changed."""
        job, lines = self.job, []
        for event in self._lines(job):
            if self._shown.get(event.uid) != event.count:
                self._shown[event.uid] = event.count
                lines.append(f"{formats.clock(event.at)} {event.reason}: {event.message}")
        if (state := view.plain_state(job)) != self._state:
            self._state = state
            lines.append(f"{formats.clock(datetime.now(UTC))} {state}")
        return lines

    def _lines(self, job: TrainingJob) -> list[job_api.Line]:
        return job_api.event_lines(self._events.objects, job)


class AllJobs:
    """All jobs of a namespace, or of the cluster for None. Only jobs that are drawn, or have changed, are parsed.

    With `phases` only jobs in one of these phases. A job that leaves them is news once more.
    """

    job = None

    def __init__(self, client: Client, namespace: str | None, phases: Collection[str] = ()) -> None:
        self._jobs = LiveList(client, job_api.jobs_path(namespace))
        self.lists: tuple[LiveList, ...] = (self._jobs,)
        self._namespace = namespace
        self._phases = phases
        self._versions: dict[str, str] = {}
        self._states: dict[str, str] = {}

    def draw(self, room: int | None) -> RenderableType:
        """The table of the jobs that fit, and how many others there are."""
        objects = [raw for raw in self._jobs.objects if is_in(raw, self._phases)]
        if not objects:
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            kind = f"{' or '.join(self._phases)} training jobs" if self._phases else "training jobs"
            return Text(f"no {kind} in {where}")
        shown, others = what_fits(objects, room)
        found, unreadable = job_api.read_jobs(shown)
        table = view.jobs_table(found, unreadable, datetime.now(UTC), namespaces=self._namespace is None)
        return Group(table, others_text(others)) if others else table

    def news(self) -> list[str]:
        """The state of each job that has changed."""
        now = formats.clock(datetime.now(UTC))
        return [f"{now} {key} {state}" for key, state in self._changed()]

    def _changed(self) -> Iterator[tuple[str, str]]:
        for raw in sorted(self._jobs.objects, key=_place):
            key, version = "/".join(_place(raw)), str(raw["metadata"].get("resourceVersion"))
            if self._versions.get(key) == version:
                continue
            self._versions[key] = version
            mine = is_in(raw, self._phases)
            if not mine and key not in self._states:
                continue
            state = _plain_state(raw)
            if self._states.get(key) != state:
                yield key, state
            if mine:
                self._states[key] = state
            else:
                del self._states[key]


def is_in(raw: Raw, phases: Collection[str]) -> bool:
    """True if the job is in one of the phases, or there are none to choose from."""
    return not phases or _phase(raw) in phases


def what_fits(objects: Sequence[Raw], room: int | None) -> tuple[list[Raw], list[Raw]]:
    """The jobs for which `room` lines suffice, by namespace and name, and the others; jobs that are over go first."""
    ordered = sorted(objects, key=_place)
    if room is None or len(ordered) <= room - _AROUND_ROWS:
        return ordered, []
    ordered.sort(key=lambda raw: _phase(raw) in _OVER)
    count = max(room - _AROUND_ROWS, 1)
    return sorted(ordered[:count], key=_place), ordered[count:]


def others_text(others: Sequence[Raw]) -> Text:
    """`and 9,962 more jobs: 9,100 Running, 862 Completed`: the most frequent phase first."""
    phases = Counter(map(_phase, others))
    counts = ", ".join(f"{formats.count(number)} {phase}" for phase, number in phases.most_common())
    jobs = "job" if len(others) == 1 else "jobs"
    return view.cut(Text(f"and {formats.count(len(others))} more {jobs}: {counts}", style="dim"))


def _plain_state(raw: Raw) -> str:
    try:
        return view.plain_state(TrainingJob.parse(raw))
    except SpecError as error:
        return f"Unreadable: {str(error).splitlines()[0]}"


def _place(raw: Raw) -> tuple[str, str]:
    meta = raw["metadata"]
    return str(meta.get("namespace", "")), str(meta["name"])


def _phase(raw: Raw) -> str:
    return str((raw.get("status") or {}).get("phase") or "New")
