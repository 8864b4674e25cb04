"""`holdfast checkpoints` on a real S3 server: by a job of the cluster, and by the address."""

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.http.s3_server import S3Server
from tests.support.http.scripted_api_server import FakeApi, fake_api
from tests.support.manifests.observed_jobs import UID, raw_job
from tests.support.trainer import stores
from tests.support.trainer.stores import identity
from typer.testing import CliRunner, Result

from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.storage import address
from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.series.rows import Row
from holdfast_train.series.segment import Header, encode, new_key
from holdfast_train.storage.checksums import CHUNK_BYTES
from holdfast_train.storage.s3 import S3Storage

JOB = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs/job"
SECRET = "/api/v1/namespaces/demo/secrets/keys"
EVENTS = "/api/v1/namespaces/demo/events"


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, ["checkpoints", *args])


@pytest.fixture
def storage(s3: S3Server) -> S3Storage:
    """Steps 10 and 20, of two chunks and a bit each; training is complete."""
    made = S3Storage(s3.bucket, f"cli/{uuid.uuid4().hex}", s3.reached)
    training = Checkpoints(made, replace(identity(1), namespace="demo"), Keep(9))
    training.start("Auto")
    for step in (10, 20):
        stores.save(training, step, {"objects": {"x": np.full(2 * CHUNK_BYTES + 100, step, "uint8")}}, [None])
    training.complete(20)
    return made


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3: S3Server, storage: S3Storage) -> Iterator[FakeApi]:
    """A cluster with a job whose checkpoints these are, and its Secret."""
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    prefix = storage.uri.removeprefix(f"s3://{s3.bucket}/")
    where = {"bucket": s3.bucket, "prefix": prefix, "endpoint": s3.endpoint, "credentialsSecret": "keys"}
    with fake_api() as server:
        server.answers = {
            ("GET", JOB): raw_job(checkpoint={"storage": {"s3": where}}),
            ("GET", SECRET): secret(s3.access_key, s3.secret_key),
        }
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


def secret(key: str, value: str) -> dict[str, Any]:
    data = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": value}
    return {"kind": "Secret", "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}}


def test_a_job_from_list_to_prune(api: FakeApi, storage: S3Storage) -> None:
    found = json.loads(holdfast("list", "job", "-o", "json").output)
    assert [(c["step"], c["state"]) for c in found["checkpoints"]] == [(20, "ok"), (10, "ok")]
    assert found["completeAtStep"] == 20
    assert holdfast("verify", "job", "--all").exit_code == 0
    differing = json.loads(holdfast("diff", "job", "10", "20", "--values", "-o", "json").output)
    assert differing["bytesDiffer"] == ["x"]
    assert holdfast("prune", "job", "--keep-last", "1", "--yes").exit_code == 0
    assert [key.split("-")[0] for key in storage.keys("data/")] == ["data/000000000020"]
    assert holdfast("verify", "job", "--all").exit_code == 0


# Breaks if the history is not found with the keys and the endpoint of the job.
def test_describe_reads_the_history_of_a_job(api: FakeApi, storage: S3Storage) -> None:
    api.answers["GET", EVENTS] = {"metadata": {}, "items": []}
    rows = [Row(step, 0.0, {"loss": 9.0 / step}) for step in range(1, 21)]
    storage.put_if_absent(new_key(1, 1), encode(Header(UID, 1, "run", 1.0, None), rows))
    storage.put_if_absent("series/000000000021-a1-abc.jsonl.gz", b"damaged")
    result = CliRunner().invoke(app, ["describe", "job", "--history"])
    assert result.exit_code == 0, result.output
    assert "9 at step 1, 0.45 at step 20" in result.output
    assert "not shown: series/000000000021-a1-abc.jsonl.gz is damaged" in result.output


@pytest.mark.parametrize(
    ("damage", "chunk"), [("first byte", 0), ("last byte", 2), ("cut", None), ("gone", None), ("swapped", 0)]
)
def test_damage_is_named(api: FakeApi, storage: S3Storage, damage: str, chunk: int | None) -> None:
    (key,), (other,) = storage.keys("data/000000000020"), storage.keys("data/000000000010")
    data = bytearray(storage.get(key))
    if damage.endswith("byte"):
        data[0 if damage == "first byte" else -1] ^= 1
    if damage == "cut":
        del data[CHUNK_BYTES + 5 :]
    if damage == "gone":
        storage.delete([key])
    else:
        storage.put(key, storage.get(other) if damage == "swapped" else data)
    result = holdfast("verify", "job", "-o", "json")
    assert result.exit_code == ExitCode.FAILED
    (found,) = json.loads(result.output)["checkpoints"]
    assert (found["damages"][0]["key"], found["damages"][0]["chunk"]) == (key, chunk)
    assert len(found["damages"]) == (3 if damage == "swapped" else 1)


def test_by_its_address_without_a_cluster(
    s3: S3Server, storage: S3Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    assert holdfast("list", storage.uri, "--endpoint", s3.endpoint).exit_code == 0
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    assert holdfast("verify", storage.uri).exit_code == 0
    missing = holdfast("list", "s3://no-such-bucket/x")
    assert (missing.exit_code, "does not exist" in missing.output) == (ExitCode.NOT_FOUND, True)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    denied = holdfast("list", storage.uri)
    assert (denied.exit_code, "SignatureDoesNotMatch" in denied.output) == (ExitCode.FORBIDDEN, True)


def test_a_server_that_does_not_answer(api: FakeApi, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "PATIENCE", 0.0)
    s3.kill()
    result = holdfast("list", "job")
    assert result.exit_code == ExitCode.NO_ANSWER
    assert "forward a port to it and give --endpoint" in result.output
