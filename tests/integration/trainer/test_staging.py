"""trainer.data from a real S3 server, in the pod's own process."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.s3_server import S3Server
from tests.support.staging.datasets import content, wanted
from tests.support.trainer.launched import start, verdict_of

from holdfast_train.errors import KeyChangedError
from holdfast_train.staging.process import open_data, stage

FILES = {"train/0 and 1.bin": bytes(range(256)) * 40_000, "labels.csv": b"x,y\n", "empty": b""}


@pytest.fixture
def prefix(s3: S3Server) -> str:
    """A prefix with FILES."""
    prefix, client = f"data/{uuid.uuid4().hex}", s3.client()
    for name, data in FILES.items():
        client.put_object(Bucket=s3.bucket, Key=f"{prefix}/{name}", Body=data)  # type: ignore[attr-defined]
    return prefix


def pod(s3: S3Server, folder: Path, prefix: str, **changes: str) -> dict[str, Any]:
    """The variables of a pod that wants these objects in `data`."""
    keys = folder / "keys"
    keys.mkdir(exist_ok=True)
    (keys / "AWS_ACCESS_KEY_ID").write_text(changes.pop("access", s3.access_key))
    (keys / "AWS_SECRET_ACCESS_KEY").write_text(s3.secret_key)
    uri = f"s3://{changes.pop('bucket', s3.bucket)}/{prefix}"
    entry = {"from": uri, "to": f"{folder}/data", "mount": str(folder), "endpoint": s3.endpoint, "keys": str(keys)}
    return {"data": wanted({**entry, **changes}), "HOLDFAST_JOB": ""}


def run(folder: Path, variables: dict[str, str]) -> dict[str, Any]:
    process = start(folder / "log", "true", **variables)
    process.communicate(timeout=120)
    return verdict_of(folder / "log")


def test_the_program_starts_when_all_objects_are_files(s3: S3Server, prefix: str, tmp_path: Path) -> None:
    variables = pod(s3, tmp_path, prefix)
    assert run(tmp_path, variables)["outcome"] == "completed"
    assert content(tmp_path / "data") == FILES
    again = stage(variables["data"], None)
    assert (again.fetched, again.done) == (0, sum(map(len, FILES.values())))


# Breaks if the server's answer to a version that is gone is not understood.
def test_an_object_that_was_written_again(s3: S3Server, prefix: str, tmp_path: Path) -> None:
    source = open_data(pod(s3, tmp_path, prefix)["data"][0])
    entry = next(one for one in source.entries("") if one.key == "labels.csv")
    view = memoryview(bytearray(4))
    source.read_into(entry.key, 0, view, version=entry.version)
    assert bytes(view) == b"x,y\n"
    s3.client().put_object(Bucket=s3.bucket, Key=f"{prefix}/labels.csv", Body=b"y,x\n")  # type: ignore[attr-defined]
    with pytest.raises(KeyChangedError, match="was written again since it was listed"):
        source.read_into(entry.key, 0, view, version=entry.version)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"bucket": "nothing"}, "StorageNotFound", "the bucket 'nothing' does not exist"),
        ({"access": "stranger"}, "StorageDenied", "refuses ListObjectsV2"),
    ],
)
def test_what_a_person_has_to_change(
    s3: S3Server, tmp_path: Path, changes: dict[str, str], reason: str, words: str
) -> None:
    verdict = run(tmp_path, pod(s3, tmp_path, "data", **changes))
    assert (verdict["outcome"], verdict["reason"]) == ("misconfigured", reason)
    assert words in verdict["message"]
    assert verdict["message"].startswith("trainer.data (from s3://")
