"""The folder of a program and its packages, for other jobs that run it: each job stores them beside its checkpoints."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.api.objects import TrainingJob
from holdfast.api.trainer import Code
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.storage.address import Found, Where, explained, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_train.code.store import copy

PATIENCE: Final = 30.0  # seconds that the storage may not answer


async def copy_code(client: Client, job: TrainingJob, other: TrainingJob, where: Where) -> None:
    """Copy the folder of `job`, and its packages, to where `other` stores. No-op without `trainer.code`.

    `where`: how to reach both. CliError if a storage cannot be reached from here, or has no such folder. ApiError.
    """
    code = job.spec.trainer.code
    if code is None:
        return
    source, target = [
        await storage_of(client, one, replace(where, place=one.metadata.name, namespace=one.metadata.namespace))
        for one in (job, other)
    ]
    await in_thread(lambda: _copy(source, target, code))


def in_namespace(raw: Mapping[str, Any], namespace: str) -> TrainingJob:
    """The job of a manifest, which need not say its namespace."""
    return TrainingJob.parse({**raw, "metadata": {**raw["metadata"], "namespace": namespace}})


def _copy(source: Found, target: Found, code: Code) -> None:
    with explained():
        from_, to = source.open(), target.open()
        with from_.within(PATIENCE), to.within(PATIENCE):
            copy(from_, to, code.sha256, code.dependencies)
