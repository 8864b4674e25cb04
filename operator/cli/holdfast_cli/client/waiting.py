"""Wait until a job is as a program wants it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.api.status import Phase, TrainingJobStatus
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.client.errors import JobFailedError, JobGoneError, WaitTimeoutError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.live_list import LiveList
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.address import Where

Until = str | Iterable[str] | Callable[[TrainingJobStatus], bool]
LOOK_AGAIN: Final = 30.0  # seconds without a change after which the watch itself is looked at


class Goal:
    """What is waited for: one of several phases, or a condition on the status."""

    def __init__(self, until: Until) -> None:
        self._is_met: Callable[[TrainingJobStatus], bool]
        if callable(until):
            self._is_met, self.words = until, "a condition"
        else:
            wanted = phases(until)
            self._is_met, self.words = lambda status: status.phase in wanted, " or ".join(wanted)

    def judge(self, job: TrainingJob) -> TrainingJobStatus | None:
        """The status if the goal is met, None while it may be met later. JobFailedError if it never will be."""
        status = job.status
        if self._is_met(status):
            return status
        if not status.is_over:
            return None
        hint = f"holdfast describe {job.metadata.name} -n {job.metadata.namespace}"
        if status.phase is Phase.FAILED:
            raise JobFailedError(f"{job.metadata.name} has failed: {why(job)}", hint=hint)
        raise JobFailedError(f"{job.metadata.name} is {state(job)}; {self.words} cannot come any more", hint=hint)


def phases(wanted: str | Iterable[str]) -> tuple[Phase, ...]:
    """One phase or several, by name. Raises CliError."""
    named = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    try:
        found = tuple(map(Phase, named))
    except ValueError as error:
        raise CliError(f"{error}; phases are: {', '.join(Phase)}", code=ExitCode.USAGE) from error
    if not found:
        raise CliError(f"no phase is named; phases are: {', '.join(Phase)}", code=ExitCode.USAGE)
    return found


def state(job: TrainingJob) -> str:
    """`Recovering (NodeLost)`."""
    status = job.status
    return f"{status.phase or 'new'}{f' ({status.reason})' if status.reason else ''}"


def why(job: TrainingJob) -> str:
    """`TooManyFailures: exit code 1`: the reason and the words for it."""
    status = job.status
    told = next((one for one in status.conditions if one.type == "Failed" and one.status == "True"), None)
    words = told.message if told and told.message else status.decision.message if status.decision else ""
    named = "" if words.startswith(f"{status.reason}: ") else status.reason
    return ": ".join(filter(None, (named, words))) or "no reason is given"


async def wait_for(
    client: Client, where: Where, uid: str, goal: Goal, seconds: float | None, *, show: Callable[[TrainingJob], None]
) -> TrainingJobStatus:
    """Watch the job until the goal is met, and `show` each change. JobFailedError, JobGoneError, WaitTimeoutError;
    ApiError.
    """
    name, namespace, pulse = where.place, where.namespace, asyncio.Event()
    seen: TrainingJob | None = None
    jobs = LiveList(client, job_api.jobs_path(namespace), {"fieldSelector": f"metadata.name={name}"}, pulse.set)
    limit = asyncio.timeout(seconds)
    try:
        async with limit, jobs.running():
            while True:
                pulse.clear()
                jobs.check()
                if jobs.trouble is not None and not jobs.trouble.transient:
                    raise jobs.trouble
                raw = next((one for one in jobs.objects if one["metadata"]["uid"] == uid), None)
                if raw is None:
                    last = f"; it was {state(seen)}" if seen else ""
                    raise JobGoneError(f"{namespace}/{name} was deleted{last}")
                seen = TrainingJob.parse(raw)
                show(seen)
                if (found := goal.judge(seen)) is not None:
                    return found
                with suppress(TimeoutError):
                    await asyncio.wait_for(pulse.wait(), LOOK_AGAIN)
    except TimeoutError as error:
        if not limit.expired():
            raise
        now = f"{name} is {state(seen)}" if seen else f"{name} was not seen"
        raise WaitTimeoutError(
            f"{now} after {seconds:g} s; waited for {goal.words}", hint=f"holdfast describe {name} -n {namespace}"
        ) from error
