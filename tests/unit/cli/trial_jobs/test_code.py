"""The program's folder of a job goes to where its trial jobs store."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.manifests.observed_jobs import raw_job
from tests.support.trainer.stores import MemoryStorage

from holdfast_cli.errors import CliError
from holdfast_cli.storage.address import Where
from holdfast_cli.trial_jobs import code
from holdfast_train.code.store import key_of
from holdfast_train.storage.retrying import RetryingStorage

HASH = "ab" * 32
OWN, TRIAL = "demo/job", "demo/job/probes/job-probe-spot"


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryStorage]:
    """The storage of the job, and that of its trial, by their prefixes."""
    found = {OWN: MemoryStorage(), TRIAL: MemoryStorage()}

    async def storage_of(client: Any, job: Any, where: Any) -> Any:
        assert (where.namespace, where.endpoint) == (job.metadata.namespace, "https://here")
        return SimpleNamespace(open=lambda: RetryingStorage(found[job.spec.checkpoint.storage.s3.prefix]))

    monkeypatch.setattr(code, "storage_of", storage_of)
    return found


def manifest(prefix: str, **more: Any) -> dict[str, Any]:
    raw = raw_job()
    raw["metadata"].pop("namespace")  # a file need not say it
    raw["spec"]["trainer"] |= more
    raw["spec"]["checkpoint"]["storage"]["s3"]["prefix"] = prefix
    return raw


async def copied(**more: Any) -> None:
    own, trial = (code.in_namespace(manifest(prefix, **more), "demo") for prefix in (OWN, TRIAL))
    await code.copy_code(cast("Any", None), own, trial, Where("job", endpoint="https://here"))


# Breaks if no probe and no rehearsal of a job that `holdfast run` has made can start: each has a prefix of its own.
async def test_a_trial_has_the_program_of_its_job(stores: dict[str, MemoryStorage]) -> None:
    stores[OWN].put(key_of(HASH), b"the archive")
    await copied(code={"sha256": HASH})
    assert stores[TRIAL].get(key_of(HASH)) == b"the archive"


async def test_a_job_whose_folder_was_not_sent(stores: dict[str, MemoryStorage]) -> None:
    with pytest.raises(CliError, match=f"has no {key_of(HASH)}"):
        await copied(code={"sha256": HASH})


async def test_without_code_no_storage_is_needed(stores: dict[str, MemoryStorage]) -> None:
    stores.clear()
    await copied()
