"""The program's folder for jobs like the user's: `trainer.code` is stored beside the checkpoints of each job."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.storage.address import Found, Where, explained, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_train.code.store import copy

PATIENCE: Final = 30.0  # seconds that the storage may not answer

Raw = Mapping[str, Any]


async def copy_code(client: Client, namespace: str, raw: Raw, manifest: Raw, endpoint: str | None) -> None:
    """Copy the folder of the job `raw` to where the job of `manifest` stores. No-op without `trainer.code`.

    CliError if a storage cannot be reached from here, or has no such folder. ApiError.
    """
    code = raw["spec"]["trainer"].get("code")
    if not code:
        return
    source, target = [await _found(client, namespace, one, endpoint) for one in (raw, manifest)]
    await in_thread(lambda: _copy(source, target, code["sha256"]))


async def _found(client: Client, namespace: str, raw: Raw, endpoint: str | None) -> Found:
    job = TrainingJob.parse({**raw, "metadata": {**raw["metadata"], "namespace": namespace}})
    return await storage_of(client, job, Where(job.metadata.name, namespace, endpoint=endpoint))


def _copy(source: Found, target: Found, sha256: str) -> None:
    with explained():
        from_, to = source.open(), target.open()
        with from_.within(PATIENCE), to.within(PATIENCE):
            copy(from_, to, sha256)
