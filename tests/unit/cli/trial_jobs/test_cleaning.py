"""What is deleted of a storage, and what is not. The rest: ../probe/test_command.py."""

from types import SimpleNamespace
from typing import Any, cast

from tests.support.trainer.stores import MemoryStorage

from holdfast_cli.probe.manifests import PROBES
from holdfast_cli.trial_jobs.cleaning import _delete_below
from holdfast_train.storage.retrying import RetryingStorage


# Breaks if a real job whose prefix is below probes/ loses its checkpoints to a probe.
def test_only_folders_of_probes_of_the_job_are_deleted() -> None:
    storage = MemoryStorage()
    for key in ("vit-probe-spot/manifests/1.json", "vit-probe-cpu/log/1", "study/manifests/1.json", "x-probe-a/log/1"):
        storage.put(key, b"x")
    found: Any = SimpleNamespace(uri="s3://runs/team/vit/probes", open=lambda: RetryingStorage(storage))
    _delete_below(cast("Any", found), PROBES, "vit")
    assert sorted(storage.content) == ["study/manifests/1.json", "x-probe-a/log/1"]
