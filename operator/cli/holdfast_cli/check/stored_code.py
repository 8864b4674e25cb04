"""Is the folder of the program, which trainer.code names, in the storage of the job?"""

from typing import Final

from holdfast.api.objects import TrainingJob
from holdfast.api.trainer import Code
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.check.findings import Report
from holdfast_cli.errors import CliError
from holdfast_cli.storage.address import PATIENCE, Found, Where, storage_of
from holdfast_cli.storage.in_thread import in_thread
from holdfast_train.code.store import size_of, size_of_dependencies
from holdfast_train.errors import CodeMissingError, HoldfastTrainError
from holdfast_train.exchange.progress_bar import format_size

FIELD: Final = "spec.trainer.code"


async def check_code(client: Client, job: TrainingJob, report: Report) -> None:
    """Say if the storage has the files, or that it could not be asked from here. The job says its namespace."""
    code, meta = job.spec.trainer.code, job.metadata
    if code is None:
        return
    try:
        found = await storage_of(client, job, Where(meta.name, meta.namespace))
        size = await in_thread(lambda: _size(found, code))
    except CodeMissingError as error:
        report.warn(FIELD, str(error))
    except (CliError, ApiError, HoldfastTrainError) as error:
        report.warn(FIELD, f"whether the storage has these files was not checked: {error}")
    else:
        report.note(FIELD, f"the storage has these files ({format_size(size)})")


def _size(found: Found, code: Code) -> int:
    storage = found.open()
    with storage.within(PATIENCE):
        packages = size_of_dependencies(storage, code.dependencies) if code.dependencies else 0
        return size_of(storage, code.sha256) + packages
