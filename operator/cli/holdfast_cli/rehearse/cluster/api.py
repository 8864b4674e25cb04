"""`ClusterApi`: what a rehearsal asks of a cluster, one request after the other.

A rehearsal waits for minutes and compares files between two requests, so it does not run in the event loop.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from holdfast.api.names import LABEL_ATTEMPT, LABEL_JOB_UID, LABEL_RANK
from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.cluster.connect import Target, connect, explained
from holdfast_cli.errors import CliError
from holdfast_cli.jobs.asked import ask_move
from holdfast_cli.rehearse.cluster.manifests import REHEARSALS
from holdfast_cli.storage.address import Where, storage_of
from holdfast_cli.trial_jobs.cleaning import Cleaner
from holdfast_cli.trial_jobs.code import copy_code, in_namespace
from holdfast_cli.trial_jobs.target import Grid, grid_of
from holdfast_train.storage.retrying import RetryingStorage

SILENCE: Final = 300.0  # seconds for which the cluster may fail to answer

T = TypeVar("T")


class ClusterApi:
    """The jobs of rehearsals of the job `raw` in a namespace."""

    def __init__(
        self, runner: asyncio.Runner, client: Client, namespace: str, raw: Mapping[str, Any], endpoint: str | None
    ) -> None:
        self._runner, self._client, self._namespace, self._endpoint = runner, client, namespace, endpoint
        self._raw = raw
        self.cleaner = Cleaner(client, namespace, raw, REHEARSALS, endpoint)
        self._answered_at = time.monotonic()

    def grid(self) -> Grid:
        """The tiers of the job. CliError if the cluster does not answer."""
        return self._call(grid_of(self._client, self._raw, TrainingJob.parse(self._raw)))

    def storage(self, manifest: Mapping[str, Any]) -> RetryingStorage:
        """Where a job stores. CliError if it cannot be reached from here."""
        job = in_namespace(manifest, self._namespace)
        where = Where(job.metadata.name, self._namespace, endpoint=self._endpoint)
        return self._call(storage_of(self._client, job, where)).open()

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create the job. CliError if another one has its name, or its program cannot be copied."""
        name = manifest["metadata"]["name"]
        own, made = in_namespace(self._raw, self._namespace), in_namespace(manifest, self._namespace)
        self._call(copy_code(self._client, own, made, Where(name, endpoint=self._endpoint)))
        try:
            path = job_api.jobs_path(self._namespace)
            return self._call(self._client.request("POST", path, body=dict(manifest)), explains=False)
        except ApiError as error:
            if error.already_exists:
                raise CliError(
                    f"TrainingJob {name} exists, and is not a rehearsal: it lacks the label {REHEARSALS.label}",
                    hint="rename that job, or the job of the file",
                ) from error
            with explained(self._client.host):
                raise
            raise

    def job(self, name: str, uid: str) -> TrainingJob | None:
        """The job as it is now; None if the cluster does not answer now. CliError if somebody has deleted it."""
        try:
            found = self._call(job_api.get_job(self._client, self._namespace, name), explains=False)
        except ApiError as error:
            if error.transient and time.monotonic() - self._answered_at < SILENCE:
                return None
            if not error.not_found:
                with explained(self._client.host):
                    raise
            found = None
        self._answered_at = time.monotonic()
        if found is None or found.metadata.uid != uid:
            raise CliError(
                f"TrainingJob {name} was deleted by somebody else, such as another rehearsal of the same job"
            )
        return found

    def move(self, name: str, tier: str) -> None:
        """Let the job save, leave its nodes and go on, on the same tier."""
        self._call(ask_move(self._client, self._namespace, name, tier, None))

    def lose(self, uid: str, attempt: int) -> None:
        """Delete the first pod of an attempt without any grace."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        pods, _ = self._call(self._client.list_all(path, {"labelSelector": f"{LABEL_JOB_UID}={uid}"}))
        labels = [(pod["metadata"], pod["metadata"].get("labels") or {}) for pod in pods]
        own = [meta for meta, of in labels if of.get(LABEL_RANK, "0") == "0" and int(of[LABEL_ATTEMPT]) <= attempt]
        newest = max(own, key=lambda meta: int(meta["labels"][LABEL_ATTEMPT]), default=None)
        if newest is not None:
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            body["preconditions"] = {"uid": newest["uid"]}
            self._call(self._client.request("DELETE", f"{path}/{newest['name']}", body=body))

    def remove_earlier(self) -> int:
        """Delete what earlier rehearsals of the job have left. The number of their jobs."""
        found = self._call(self.cleaner.remove_all())
        self.cleaner.notes.clear()  # what cannot be removed now is said in the end
        return found

    def remove(self, raw: Mapping[str, Any]) -> None:
        """Delete a job that is over; what it stored stays."""
        self._call(self.cleaner.remove(raw))

    def remove_in_the_end(self) -> None:
        """Delete all jobs, and what they stored. What cannot be removed is a note of the cleaner."""
        self._call(self.cleaner.remove_in_the_end())

    def _call(self, work: Coroutine[Any, Any, T], *, explains: bool = True) -> T:
        if not explains:
            return self._runner.run(work)
        with explained(self._client.host):
            return self._runner.run(work)


@contextmanager
def connected(target: Target, raw: Mapping[str, Any], endpoint: str | None) -> Iterator[ClusterApi]:
    """The cluster of the target. Every error of the API or the kubeconfig inside becomes a CliError."""
    with asyncio.Runner() as runner:
        connection = connect(target)
        client = runner.run(_entered(connection))
        try:
            yield ClusterApi(runner, client, target.resolved_namespace(), raw, endpoint)
        finally:
            runner.run(_left(connection))


async def _entered(connection: Any) -> Client:
    found: Client = await connection.__aenter__()
    return found


async def _left(connection: Any) -> None:
    await connection.__aexit__(None, None, None)
