"""`Job`: one training, for a program or a notebook."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.api.errors import HoldfastError
from holdfast.api.job import TrainingJobSpec
from holdfast.api.objects import TrainingJob
from holdfast.api.status import TrainingJobStatus
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.client.bar import progress_bar
from holdfast_cli.client.calling import call, call_blocking, stream
from holdfast_cli.client.card import card, failed
from holdfast_cli.client.checkpoint import Checkpoint, usable
from holdfast_cli.client.errors import JobGoneError
from holdfast_cli.client.log_lines import SILENT, LineSink, Say
from holdfast_cli.client.waiting import Goal, Until, wait_for
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.jobs.asked import Asked, ask_checkpoint, ask_move, outcome_within, set_suspended
from holdfast_cli.jobs.cancel import delete, wait_gone
from holdfast_cli.logs.chosen import Choice, ranks_of
from holdfast_cli.logs.showing import show_logs
from holdfast_cli.pages.file import store_page
from holdfast_cli.report.gather import gather
from holdfast_cli.report.html import html
from holdfast_cli.storage.address import Where, storage_of
from holdfast_cli.storage.history import history_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_train.series.history import History

T = TypeVar("T")
PATIENCE: Final = 600.0  # seconds that a request may take, as for the commands
SAVE_PATIENCE: Final = 300.0


class Job:
    """One training. `Client.run`, `Client.get` and `Client.list` give it.

    It stays this very job: if the job is deleted, and another one gets its name, a call raises `JobGoneError`. Every
    call asks the cluster, blocks until it has the answer, and raises a `HoldfastError` if it cannot. A notebook shows a
    job as its state in figures and a curve of its loss.
    """

    def __init__(self, where: Where, uid: str) -> None:
        self._where = where
        self._uid = uid

    def __repr__(self) -> str:
        return f"Job({self.name!r}, namespace={self.namespace!r})"

    @property
    def name(self) -> str:
        """The name of the TrainingJob."""
        return self._where.place

    @property
    def namespace(self) -> str:
        """Its namespace."""
        assert self._where.namespace is not None
        return self._where.namespace

    @property
    def spec(self) -> TrainingJobSpec:
        """What is asked for; read again at each access."""
        return self._read().spec

    @property
    def status(self) -> TrainingJobStatus:
        """What Holdfast says of the job, such as `phase` and `progress.step`; read again at each access."""
        return self._read().status

    def wait(
        self, until: Until = "Completed", timeout: float | None = None, progress: bool | None = None
    ) -> TrainingJobStatus:
        """Wait for a phase, for one of several, or until a function of the status returns true. Returns the status.

        Raises `JobFailedError` if the job fails, or is over and cannot get there any more; `JobGoneError` if it is
        deleted; `WaitTimeoutError` after `timeout` seconds, None waits for ever. Each names the phase and its reason.
        `progress` shows a bar on standard error; None shows it on a terminal, and in a notebook with ipywidgets.
        """
        goal = Goal(until)

        async def work() -> TrainingJobStatus:
            async with connect(self._target) as client:
                return await wait_for(client, self._where, self._uid, goal, timeout, show=show)

        with progress_bar(progress) as show:
            return call(work)

    def logs(
        self, follow: bool = False, rank: int | str = 0, attempt: int | None = None, say: Say | None = None
    ) -> Iterator[str]:
        """The lines that the program wrote, over all attempts or of one of them, without their ends.

        Logs of pods that are gone come from the storage of the job, as far as they are kept there. `say` is called with
        words about the log, such as which attempts have none any more, or what the job waits for. With `follow` it goes
        on, over moves too, until the job is over. `rank` is that of a node, or several as in "0-3,8" or "all": then
        each line begins with its rank. The log is read while lines are asked for.
        """

        async def work(put: Callable[[str], None]) -> None:
            async def show(client: Client, job: TrainingJob) -> None:
                choice = Choice(ranks_of(job, str(rank)), attempt)
                sink = LineSink(choice.ranks, put, say or SILENT)
                await show_logs(client, job, choice, sink, self._where, follow=follow)

            await self._with(show)

        return stream(work)

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints that training can resume from, newest first; those that are not intact are left out."""

        async def work(client: Client, job: TrainingJob) -> list[Checkpoint]:
            found = await storage_of(client, job, self._where)
            return await in_thread(lambda: usable(found))

        return self._call(work)

    def history(self) -> list[dict[str, Any]]:
        """What the program measured, over all attempts: `pandas.DataFrame(job.history())`.

        Each row has `step`, `time` (UTC) and a key for each metric, such as `loss`. Steps that were lost and trained
        again are there once. A long history is thinned to 10,000 rows; no extreme value of a metric is lost.
        """
        return rows_of(self._call(self._history))

    def move(self, tier: str | None = None, node: str | None = None, *, timeout: float | None = PATIENCE) -> str:
        """Make the job save, leave its node, and go on elsewhere: on `tier`, or away from one `node` of several.

        Waits until it trains again, and returns that in words. None as `timeout` does not wait.
        """
        return self._ask(partial(ask_move, tier=tier, node=node), timeout)

    def checkpoint(self, *, timeout: float | None = SAVE_PATIENCE) -> str:
        """Make the job save now. Waits until it has, and returns that in words. None as `timeout` does not wait."""
        return self._ask(ask_checkpoint, timeout)

    def suspend(self, *, timeout: float | None = PATIENCE) -> str:
        """Make the job save and give its nodes back. Waits until it has. None as `timeout` does not wait."""
        return self._ask(partial(set_suspended, suspended=True), timeout)

    def resume(self, *, timeout: float | None = PATIENCE) -> str:
        """Make a suspended job go on. Waits until it trains. None as `timeout` does not wait."""
        return self._ask(partial(set_suspended, suspended=False), timeout)

    def cancel(self, *, timeout: float | None = PATIENCE) -> None:
        """End the job and delete it; its checkpoints stay. Waits until its pods are gone. None does not wait."""

        async def work(client: Client, job: TrainingJob) -> None:
            await delete(client, job)
            if timeout is not None:
                await wait_gone(client, job, timeout)

        self._call(work)

    def report(self, path: str | PathLike[str]) -> Path:
        """Write all that is known of the job as one HTML file, and return its path."""
        self._read()
        to = Path(path)
        content = call_blocking(lambda: html([gather(self._where)])).encode(errors="replace")
        store_page(content, to, hint="give another path")
        return to

    def _repr_html_(self) -> str:
        """Called by a notebook."""

        async def work(client: Client, job: TrainingJob) -> str:
            history, note = None, ""
            if job.status.attempt:
                try:
                    history = await self._history(client, job)
                except HoldfastError as error:
                    note = f"no curve: {error}"
            return card(job, history, datetime.now(UTC), note)

        try:
            return self._call(work)
        except HoldfastError as error:
            return failed(f"{self.namespace}/{self.name}", str(error))

    @property
    def _target(self) -> Target:
        return Target(self._where.kubeconfig, self._where.namespace)

    async def _history(self, client: Client, job: TrainingJob) -> History:
        return await history_of(client, job, self._where.endpoint)

    def _read(self) -> TrainingJob:
        async def work(_: Client, job: TrainingJob) -> TrainingJob:
            return job

        return self._call(work)

    def _ask(self, ask: Callable[[Client, str, str], Awaitable[Asked]], timeout: float | None) -> str:
        async def work(client: Client, job: TrainingJob) -> str:
            asked = await ask(client, job.metadata.namespace, job.metadata.name)
            return "requested" if timeout is None else await outcome_within(asked, timeout)

        return self._call(work)

    def _call(self, work: Callable[[Client, TrainingJob], Awaitable[T]]) -> T:
        return call(lambda: self._with(work))

    async def _with(self, work: Callable[[Client, TrainingJob], Awaitable[T]]) -> T:
        """The answer of `work` about the job as it is now. Raises JobGoneError, CliError."""
        async with connect(self._target) as client:
            job = await job_api.find_job(client, self.namespace, self.name)
            if job is None or job.metadata.uid != self._uid:
                again = "" if job is None else ", and another job has its name"
                raise JobGoneError(f"{self.namespace}/{self.name} was deleted{again}")
            return await work(client, job)


def rows_of(history: History) -> list[dict[str, Any]]:
    """A row for each step that counts, in the order of the steps."""
    return [
        {"step": row.step, "time": datetime.fromtimestamp(row.at, UTC), **_others(row.values)}
        for row in sorted((row for part in history.parts for row in part.kept), key=lambda row: row.step)
    ]


def _others(values: Any) -> dict[str, float]:
    return {name: value for name, value in values.items() if name not in ("step", "time")}


def named(where: Where, name: str, found: TrainingJob | None) -> Job:
    """The job with this name. CliError if there is none."""
    if found is None:
        raise CliError(
            f"there is no job {name} in namespace {where.namespace}",
            code=ExitCode.NOT_FOUND,
            hint="Client.list(all_namespaces=True) lists all jobs",
        )
    return Job(replace(where, place=name), found.metadata.uid)
