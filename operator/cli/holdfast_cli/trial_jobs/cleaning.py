"""Remove jobs like the user's and what they stored. Only what the label and the prefix name is touched."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.api.names import LABEL_JOB_UID
from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster import job_api
from holdfast_cli.errors import CliError
from holdfast_cli.storage.address import Found, Where, explained, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_cli.trial_jobs.manifests import may_be_name, with_storage_of_all
from holdfast_cli.trial_jobs.purpose import Purpose

PATIENCE: Final = 5.0  # seconds that the storage may not answer
LIMIT: Final = 60.0  # seconds for all of the checkpoints
PODS_LIMIT: Final = 150.0  # seconds until pods have ended: a grace period, and some more
LOOK_EVERY: Final = 0.5  # seconds
PAUSES: Final = (1.0, 3.0, 0.0)  # seconds after each try to remove all of them in the end
_OVER: Final = ("Completed", "Failed")  # phases of a job
_ENDED: Final = ("Succeeded", "Failed")  # phases of a pod


@dataclass
class Cleaner:
    """Removes the jobs of one purpose that are like the job `raw`. `notes` say what may be left, and why."""

    client: Client
    namespace: str
    raw: Mapping[str, Any]
    purpose: Purpose
    endpoint: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def selector(self) -> dict[str, str]:
        """The parameters that select these jobs."""
        return {"labelSelector": f"{self.purpose.label}={self.raw['metadata']['name']}"}

    async def remove_all(self) -> int:
        """Delete all of them, wait for their pods, then delete what they stored. The number of jobs.

        Raises ApiError if they cannot be deleted; other remains are named in a note.
        """
        items, _ = await self.client.list_all(job_api.jobs_path(self.namespace), self.selector)
        await asyncio.gather(*(self.remove(raw) for raw in items))
        await self._empty_storage()
        return len(items)

    async def remove_in_the_end(self) -> None:
        """As `remove_all`; several times if the cluster does not answer. What cannot be removed is a note."""
        for pause in PAUSES:
            try:
                await self.remove_all()
            except ApiError as error:
                trouble = error
                await asyncio.sleep(pause)
            else:
                return
        selector = f"-n {self.namespace} -l {self.selector['labelSelector']}"
        self.notes.append(
            f"the {self.purpose.word}s cannot be deleted ({trouble.message}); the operator ends and deletes them, "
            f"or: kubectl delete trainingjobs {selector}"
        )

    async def remove(self, raw: Mapping[str, Any]) -> None:
        """Delete one of them, and wait until its name is free and none of its pods can write. Raises ApiError."""
        meta, path = raw["metadata"], job_api.job_path(self.namespace, raw["metadata"]["name"])
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": meta["uid"]},
            "propagationPolicy": "Background",
        }
        try:
            await self.client.request("DELETE", path, body=body)
        except ApiError as error:
            if not (error.not_found or error.conflict):  # it is gone, or another one has its name
                raise
        if (raw.get("status") or {}).get("phase") not in _OVER:
            await self._until_pods_end(str(meta["name"]), str(meta["uid"]))

    async def _until_pods_end(self, name: str, uid: str) -> None:
        try:
            async with asyncio.timeout(PODS_LIMIT):
                while True:
                    if not await self._runs(uid):
                        return
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            self.notes.append(f"pods of {name} still run {PODS_LIMIT:.0f}s after it was deleted")
        except ApiError as error:
            self.notes.append(f"it is not known whether pods of {name} still run: {error.message}")

    async def _runs(self, uid: str) -> bool:
        """True if a pod of the job may still run."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        pods, _ = await self.client.list_all(path, {"labelSelector": f"{LABEL_JOB_UID}={uid}"})
        return any((pod.get("status") or {}).get("phase") not in _ENDED for pod in pods)

    async def _empty_storage(self) -> None:
        """Delete what is below their folder, inside the job's own prefix."""
        try:
            job = TrainingJob.parse(with_storage_of_all(self.purpose, self.raw, self.namespace))
            found = await storage_of(self.client, job, Where(job.metadata.name, self.namespace, endpoint=self.endpoint))
            async with asyncio.timeout(LIMIT):
                await in_thread(lambda: _delete_below(found, self.purpose, job.metadata.name))
        except (CliError, ApiError, TimeoutError) as error:
            said = str(error) or f"it took over {LIMIT:.0f}s"
            where = f"{self.purpose.folder}/ below the job's prefix"
            self.notes.append(f"what the {self.purpose.word}s stored stays ({where}): {said}")


def _delete_below(found: Found, purpose: Purpose, job: str) -> None:
    """Delete the folders of the jobs that are like this one: another job's prefix may be beside them, and stays."""
    if not found.uri.endswith(f"/{purpose.folder}"):
        raise AssertionError(f"{found.uri} is not the folder of {purpose.word}s")
    with explained():
        storage = found.open()
        with storage.within(PATIENCE, at_most=LIMIT):
            if keys := [key for key in storage.keys("") if may_be_name(purpose, key.partition("/")[0], job)]:
                storage.delete(keys)
            storage.drop_unfinished("", datetime.now(UTC))
