"""What is known of the cluster: jobs and profiles by one list and one watch each, and the Events of open jobs."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from holdfast.api.errors import SpecError
from holdfast.api.objects import CapacityProfile, TrainingJob
from holdfast.core.capacity import bad_nodes
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import explain
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.cluster.operators import Operators
from holdfast_cli.pages.jobs_page import JobRow, Jobs
from holdfast_cli.pages.tiers_page import Teachers, Tiers, learned, newest
from holdfast_cli.ui.pulse import Pulse

SLICE: Final = 0.01  # seconds for which reading jobs may keep other tasks waiting
LONGEST_WHY: Final = 300  # characters of an error that nobody expected
LOOK: Final = 0.2  # seconds between two readings of what changed
ASK: Final = 5.0  # seconds between two looks if an operator is at work


@dataclass(frozen=True, slots=True)
class _Read:
    """What is kept of one version of a job. Without a row it cannot be read, for the reason `why`."""

    version: str
    key: tuple[str, str]
    row: JobRow | None = None
    taught: Teachers | None = None
    own_tiers: bool = False
    why: str = ""


class Cluster:
    """Use it inside `running`."""

    def __init__(self, client: Client, namespace: str | None) -> None:
        self.client = client
        self.namespace = namespace
        self.pulse = Pulse()
        """Beats when something that a page may show has changed."""
        self._dirty = asyncio.Event()
        self._jobs = LiveList(client, job_api.jobs_path(namespace), None, self._dirty.set)
        self._profiles = LiveList(client, job_api.profiles_path(), None, self.pulse.beat)
        self._operators = Operators(client)
        self._read: dict[str, _Read] = {}
        self._places: dict[tuple[str, str], dict[str, Any]] = {}
        self._tasks: asyncio.TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the lists inside the block. Raises ApiError if the jobs cannot be read at first."""
        try:
            async with self._operators.running(), asyncio.TaskGroup() as self._tasks:
                work = (self._jobs.keep(), self._profiles.keep(), self._digest(), self._heed_operators())
                tasks = [self._tasks.create_task(one) for one in work]
                try:
                    await self._jobs.asked.wait()
                    if self._jobs.trouble is not None:
                        raise self._jobs.trouble
                    await self._profiles.asked.wait()  # the first page of tiers is not an empty one
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        except ExceptionGroup as several:  # the first one is the cause: it has cancelled the others
            raise several.exceptions[0] from None

    @asynccontextmanager
    async def events_of(self, namespace: str, name: str) -> AsyncIterator[LiveList]:
        """The Events about a job, kept inside the block."""
        events = LiveList(self.client, job_api.events_path(namespace), job_api.about(name), self.pulse.beat)
        async with self.meanwhile(events.keep()):
            yield events

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do some work until its task is cancelled. If it fails, everything ends: it is an error of the program."""
        return self._tasks.create_task(work)

    @asynccontextmanager
    async def meanwhile(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Do some work inside the block."""
        task = self.begin(work)
        try:
            yield
        finally:
            task.cancel()

    @property
    def trouble(self) -> str:
        """What keeps the pages from being current, in words; empty if nothing does."""
        for kept in (self._jobs, self._profiles):
            if kept.trouble is not None and not kept.forbidden:
                error = explain(kept.trouble, self.client.host)
                hint = f" ({error.hint})" if error.hint else ""
                return f"{error}{hint}. The pages show what was seen last."
        if self._jobs.forbidden:
            return "You may not list jobs any more (403). The pages show what was seen last."
        return self._operators.silence(datetime.now(UTC))

    def jobs(self) -> Jobs:
        """All jobs, as far as they are read."""
        read = self._read.values()
        rows = [one.row for one in read if one.row is not None]
        unreadable = [("/".join(one.key), one.why) for one in read if one.row is None]
        return Jobs(rows, unreadable, len(self._jobs.objects), self.namespace)

    def tiers(self) -> Tiers:
        """All profiles, and what jobs know of them."""
        notes = ["Profiles are not seen: you may not list CapacityProfiles (403)."] if self._profiles.forbidden else []
        found = []
        for raw in self._profiles.objects:
            try:
                profile = CapacityProfile.parse(raw)
                found.append(bad_nodes.as_of(profile, datetime.now(UTC)))
            except SpecError as error:
                notes.append(f"This version cannot read the profile {_key(raw)[1]}: {error}")
        found.sort(key=lambda profile: profile.metadata.name)
        read = list(self._read.values())
        teachers = newest(one.taught for one in read if one.taught)
        return Tiers(found, teachers, self.namespace, sum(one.own_tiers for one in read), tuple(notes))

    def profile(self, name: str) -> CapacityProfile | None:
        """A profile, None if it is not seen or cannot be read."""
        return next((one for one in self.tiers().profiles if one.metadata.name == name), None)

    def job(self, namespace: str, name: str) -> TrainingJob | None:
        """A job, None if there is none. Raises SpecError if this version cannot read it."""
        raw = self._places.get((namespace, name))
        return None if raw is None else TrainingJob.parse(raw)

    async def _heed_operators(self) -> None:
        """Draw again when operators fall silent, or are back: no object of a page says it."""
        said = ""
        while True:
            if (now := self._operators.silence(datetime.now(UTC))) != said:
                said = now
                self.pulse.beat()
            await asyncio.sleep(ASK)

    async def _digest(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._read_changes()
            self.pulse.beat()
            await asyncio.sleep(LOOK)

    async def _read_changes(self) -> None:
        """Read the jobs that are new or changed, newest first, in slices; the pages show those that are read."""
        objects = self._jobs.objects
        uids = {_uid(raw) for raw in objects}
        self._places = {_key(raw): raw for raw in objects}
        for gone in self._read.keys() - uids:
            del self._read[gone]
        changed = [
            raw for raw in objects if (known := self._read.get(_uid(raw))) is None or known.version != _version(raw)
        ]
        changed.sort(key=_born, reverse=True)
        began = told = monotonic()
        for raw in changed:
            self._read[_uid(raw)] = _digested(raw)
            if (now := monotonic()) - began > SLICE:
                if now - told > LOOK:
                    self.pulse.beat()
                    told = now
                await asyncio.sleep(0)
                began = monotonic()


def _digested(raw: dict[str, Any]) -> _Read:
    try:
        job = TrainingJob.parse(raw)
        return _Read(_version(raw), _key(raw), JobRow.of(job), learned(job), job.spec.capacity.profile is None)
    except SpecError as error:
        return _Read(_version(raw), _key(raw), why=str(error))
    except Exception as error:  # noqa: BLE001 - one job must not end the pages of all; its row says what was wrong
        return _Read(_version(raw), _key(raw), why=f"{type(error).__name__}: {str(error)[:LONGEST_WHY]}")


def _key(raw: dict[str, Any]) -> tuple[str, str]:
    meta = raw.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))


def _uid(raw: dict[str, Any]) -> str:
    return str((raw.get("metadata") or {}).get("uid") or "/".join(_key(raw)))


def _version(raw: dict[str, Any]) -> str:
    return str((raw.get("metadata") or {}).get("resourceVersion", ""))


def _born(raw: dict[str, Any]) -> str:
    return str((raw.get("metadata") or {}).get("creationTimestamp") or "")
