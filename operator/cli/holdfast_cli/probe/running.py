"""Run the probes of a job: those of different tiers at the same time, those of one tier one after the other."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from holdfast.api.names import LABEL_PROBE_OF
from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.errors import CliError
from holdfast_cli.probe.manifests import Limits, Probe
from holdfast_cli.probe.measure import (
    Outcome,
    Result,
    ending,
    has_waited_in_vain,
    judge,
    limits_in_words,
    newest,
    pace_of_rows,
    pace_of_status,
    samples_of_rows,
)
from holdfast_cli.storage.address import Where
from holdfast_cli.storage.history import history_of
from holdfast_cli.terminal import formats
from holdfast_cli.trial_jobs.cleaning import Cleaner
from holdfast_cli.trial_jobs.code import copy_code, in_namespace
from holdfast_protocol.figures import UNKNOWN, Figures

TICK: Final = 0.5  # seconds between two looks at the clock
SILENCE: Final = 300.0  # seconds for which the cluster may fail to answer

Say = Callable[[str, str], None]  # the name of a tier, and what its probe does now


class Running:
    """The probes of one job while they run."""

    def __init__(self, cleaner: Cleaner, limits: Limits, say: Say, *, keep: bool) -> None:
        self._cleaner = cleaner
        self._client: Client = cleaner.client
        self._limits = limits
        self._say = say
        self._keep = keep
        self._live = LiveList(self._client, job_api.jobs_path(cleaner.namespace), cleaner.selector, self._note)
        self._seen: dict[str, dict[str, Any]] = {}  # by UID: the newest version of each probe, also of one that is gone
        self._figures: dict[str, Figures] = {}  # by UID

    async def run(self, probes: Sequence[Probe]) -> list[Result]:
        """The results, in the order of the probes. Raises CliError and ApiError."""
        chains: dict[str, list[Probe]] = {}
        for probe in probes:
            chains.setdefault(probe.tier.name, []).append(probe)
        async with self._live.running(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._chain(chain)) for chain in chains.values()]
        found = {name: result for task in tasks for name, result in task.result()}
        return [found[probe.name] for probe in probes]

    async def _chain(self, probes: Sequence[Probe]) -> list[tuple[str, Result]]:
        return [(probe.name, await self._one(probe)) for probe in probes]

    async def _one(self, probe: Probe) -> Result:
        made = await self._create(probe)
        uid = str(made["metadata"]["uid"])
        outcome = await self._until_over(probe, uid)
        raw = self._seen.get(uid, made)
        job = TrainingJob.parse(raw)
        limits = limits_in_words(self._limits.acquire, self._limits.run)
        result = await self._with_pace(judge(probe, job, self._figures.get(uid, UNKNOWN), outcome, limits), job)
        self._say(probe.name, "measured" if outcome is Outcome.MEASURED else result.message.splitlines()[0])
        if not self._keep:  # at once: its node is paid for, and the next probe of the tier may need it
            with suppress(ApiError):  # all are removed once more in the end
                await self._cleaner.remove(raw)
        return result

    async def _create(self, probe: Probe) -> dict[str, Any]:
        cleaner = self._cleaner
        own, made = in_namespace(cleaner.raw, cleaner.namespace), in_namespace(probe.manifest, cleaner.namespace)
        await copy_code(self._client, own, made, Where(probe.name, endpoint=cleaner.endpoint))
        path = job_api.jobs_path(cleaner.namespace)
        try:
            return await self._client.request("POST", path, body=probe.manifest)
        except ApiError as error:
            if not error.already_exists:
                raise
            raise CliError(
                f"TrainingJob {probe.name} exists, and is not a probe: it lacks the label {LABEL_PROBE_OF}",
                hint="rename that job, or the job of the file",
            ) from error

    async def _until_over(self, probe: Probe, uid: str) -> Outcome:
        """Wait until the probe has ended, or its time is over."""
        clock = asyncio.get_running_loop().time
        began, got_node = clock(), None
        while True:
            self._check()
            raw = self._seen.get(uid)
            if raw is not None:
                job = TrainingJob.parse(raw)
                if outcome := ending(job, self._limits.steps):
                    return outcome
                if not any(one["metadata"]["uid"] == uid for one in self._live.objects):
                    return Outcome.GONE
                self._say(probe.name, _in_words(job))
                in_vain = has_waited_in_vain(job)
                if in_vain is None and got_node is None:
                    got_node = clock()
                if in_vain and got_node is None and clock() - began >= self._limits.acquire.total_seconds():
                    return in_vain
            since = began + self._limits.acquire.total_seconds() if got_node is None else got_node
            if clock() - since >= self._limits.run.total_seconds():
                return Outcome.NOT_DONE
            await asyncio.sleep(TICK)

    async def _with_pace(self, result: Result, job: TrainingJob) -> Result:
        """Add the pace: from the series if the program writes one, otherwise from the status."""
        mean = pace_of_status(job.status)
        if result.outcome in (Outcome.NO_NODE, Outcome.NOT_SEEN) or not result.steps:
            return result
        try:
            history = await history_of(self._client, job, self._cleaner.endpoint)
        except (CliError, ApiError) as error:
            note = f"the times of single steps cannot be read, so a pace is the mean of all steps: {error}"
            if note not in self._cleaner.notes:
                self._cleaner.notes.append(note)
            return replace(result, pace=mean)
        rows = history.parts[-1].rows if history.parts else ()
        samples = samples_of_rows(rows) or result.samples_per_second
        return replace(result, pace=pace_of_rows(rows) or mean, samples_per_second=samples)

    def _note(self) -> None:
        for raw in self._live.objects:
            uid = str(raw["metadata"]["uid"])
            self._seen[uid] = raw
            self._figures[uid] = newest(self._figures.get(uid, UNKNOWN), raw)

    def _check(self) -> None:
        """Raise the trouble of the watch if it lasts."""
        self._live.check()
        trouble = self._live.trouble
        now = asyncio.get_running_loop().time()
        if trouble is not None and (not trouble.transient or now - self._live.since > SILENCE):
            raise trouble


def _in_words(job: TrainingJob) -> str:
    """`Running, step 12/60`."""
    progress = job.status.progress
    step = f", step {formats.count(progress.step)}" if progress.step else ""
    total = f"/{formats.count(progress.steps)}" if step and progress.steps else ""
    return f"{job.status.phase or 'new'}{step}{total}"
