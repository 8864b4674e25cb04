"""Read the history of a job's training from the storage of its checkpoints, within a time."""

import asyncio
from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.address import Found, Where, explained, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_train.series.history import History, read_history

PATIENCE: Final = 5.0  # seconds that the storage may not answer
LIMIT: Final = 20.0  # seconds for all of it
MOST_ROWS: Final = 10_000
MOST_SEGMENTS: Final = 300  # each is a request


async def history_of(client: Client, job: TrainingJob, endpoint: str | None = None) -> History:
    """The history of a job. Raises CliError, after LIMIT at the latest, and ApiError."""
    meta = job.metadata
    found = await storage_of(client, job, Where(meta.name, meta.namespace, endpoint=endpoint))
    try:
        async with asyncio.timeout(LIMIT):
            return await in_thread(lambda: _read(found, meta.uid))
    except TimeoutError as error:
        raise CliError(
            f"reading the history below {found.uri} took over {LIMIT:.0f}s", code=ExitCode.NO_ANSWER
        ) from error


def _read(found: Found, uid: str | None) -> History:
    with explained():
        storage = found.open()
        with storage.within(PATIENCE, at_most=LIMIT):
            return read_history(storage, most_rows=MOST_ROWS, most_segments=MOST_SEGMENTS, job_uid=uid)
