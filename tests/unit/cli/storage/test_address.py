"""Which storage a place on the command line means: that of a job in a cluster, or an address."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.http.scripted_api_server import FakeApi, failure, fake_api, listing
from tests.support.manifests.observed_jobs import raw_job
from typer.testing import CliRunner, Result

from holdfast.api.objects import TrainingJob
from holdfast_cli.cluster.connect import Target, connect
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.main import app
from holdfast_cli.storage.address import Found, Where, find, storage_of
from holdfast_train.environment import Credentials

JOB = "/apis/holdfast.dev/v1alpha1/namespaces/demo/trainingjobs/job"
SECRET = "/api/v1/namespaces/demo/secrets/keys"
S3 = {"bucket": "runs", "prefix": "demo/job", "endpoint": "https://s3.example:9000", "credentialsSecret": "keys"}


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, ["checkpoints", *args])


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A server with one job; the user has no keys of their own."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.upper().endswith("_PROXY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with fake_api() as server:
        server.answers = {
            ("GET", JOB): raw_job(checkpoint={"storage": {"s3": S3}}),
            ("GET", SECRET): secret(AWS_ACCESS_KEY_ID="me", AWS_SECRET_ACCESS_KEY="secret"),
        }
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "config")))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        yield server


def secret(**data: str) -> dict[str, Any]:
    return {"kind": "Secret", "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}}


WAY = {"ca": {"configMap": {"name": "company", "key": "root.pem"}}, "proxy": "http://p:1", "addressing": "Virtual"}
CA = "/api/v1/namespaces/demo/configmaps/company"


def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "keys")


def test_a_job_says_where_and_its_secret_how(api: FakeApi) -> None:
    found = find(Where("job"))
    server = found.server
    assert (found.uri, server.endpoint, server.region) == ("s3://runs/demo/job", S3["endpoint"], "us-east-1")
    assert found.server.credentials == Credentials("me", "secret")
    other = find(Where("job", endpoint="http://127.0.0.1:1", region="eu"))
    assert (other.server.endpoint, other.server.region) == ("http://127.0.0.1:1", "eu")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (failure(403, "Forbidden", "no"), "it takes the right to get secrets/keys in demo"),
        (failure(404, "NotFound", "no"), "the Secret demo/keys with the job's keys does not exist"),
        (secret(AWS_ACCESS_KEY_ID="me"), "the Secret demo/keys lacks AWS_SECRET_ACCESS_KEY"),
        ({"kind": "Secret", "data": {"AWS_ACCESS_KEY_ID": "%"}}, "the Secret demo/keys cannot be read"),
    ],
)
def test_without_the_secret_own_keys_are_used_and_it_is_said(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], why: str
) -> None:
    api.answers["GET", SECRET] = answer
    mine = Where("job", endpoint=S3["endpoint"])
    with pytest.raises(CliError, match="there are no AWS credentials of your own") as refused:
        find(mine)
    assert (refused.value.exit_code, why in str(refused.value)) == (ExitCode.FORBIDDEN, True)
    own_keys(monkeypatch)
    found = find(mine)
    assert found.server.credentials == Credentials()
    (note,) = found.notes
    assert (why in note, note.endswith("; your own AWS credentials are used")) == (True, True)


def test_a_cluster_that_fails_is_not_a_missing_right(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    own_keys(monkeypatch)
    api.answers["GET", SECRET] = failure(500, "InternalError", "etcd")
    with pytest.raises(CliError, match="etcd"):
        find(Where("job"))


def test_a_volume_claim_is_for_pods(api: FakeApi) -> None:
    storage = {"storage": {"volumeClaim": {"name": "shared", "path": "vision/vit"}}}
    api.answers["GET", JOB] = raw_job(checkpoint=storage)
    result = holdfast("list", "job")
    assert result.exit_code == ExitCode.FAILED
    assert "file:///mnt/vision/vit" in result.output


def test_a_job_that_is_not_there_and_jobs_for_completion(api: FakeApi) -> None:
    api.answers["GET", JOB.rpartition("/")[0]] = listing(raw_job())
    result = holdfast("list", "other")
    assert result.exit_code == ExitCode.NOT_FOUND


def test_a_bucket_without_keys(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    result = holdfast("list", "s3://runs/demo/job")
    assert result.exit_code == ExitCode.FORBIDDEN
    assert "AWS_PROFILE" in result.output
    own_keys(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    refused = holdfast("list", "s3://runs/x", "--endpoint", "nonsense").output
    assert "nonsense; give the endpoint as https://host:port" in refused
    found = find(Where("s3://runs/demo/job"))
    assert (found.server.endpoint, found.server.region) == ("http://127.0.0.1:9", "eu-north-1")


def test_the_way_to_the_storage_is_the_jobs(api: FakeApi) -> None:
    api.answers["GET", JOB] = raw_job(checkpoint={"storage": {"s3": {**S3, **WAY}}})
    api.answers["GET", CA] = {"kind": "ConfigMap", "data": {"root.pem": "certificates"}}
    server = find(Where("job")).server
    assert (server.proxy, server.addressing, Path(server.ca or "").read_text()) == (
        "http://p:1", "Virtual", "certificates",
    )  # fmt: skip
    forwarded = find(Where("job", endpoint="https://127.0.0.1:1")).server
    assert (forwarded.proxy, forwarded.ca) == (None, server.ca)
    asked = find(Where("job", ca=Path("/ca"), proxy="http://q:1", addressing="Path")).server
    assert (asked.ca, asked.proxy, asked.addressing) == ("/ca", "http://q:1", "Path")
    assert find(Where("job", proxy="none")).server.proxy is None
    in_secret = {**WAY, "ca": {"secret": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"}}}
    api.answers["GET", JOB] = raw_job(checkpoint={"storage": {"s3": {**S3, **in_secret}}})
    assert Path(find(Where("job")).server.ca or "").read_text() == "me"


@pytest.mark.parametrize(
    ("answer", "why", "code"),
    [
        (failure(403, "Forbidden", "no"), "you may not read the ConfigMap demo/company", ExitCode.FORBIDDEN),
        (failure(404, "NotFound", "no"), "the ConfigMap demo/company .* does not exist", ExitCode.NOT_FOUND),
        ({"kind": "ConfigMap", "data": {"ca.crt": "x"}}, "demo/company .* has no key root.pem", ExitCode.NOT_FOUND),
    ],
)
def test_a_ca_that_cannot_be_read(api: FakeApi, answer: dict[str, Any], why: str, code: ExitCode) -> None:
    api.answers["GET", JOB] = raw_job(checkpoint={"storage": {"s3": {**S3, **WAY}}})
    api.answers["GET", CA] = answer
    with pytest.raises(CliError, match=why) as refused:
        find(Where("job"))
    assert (refused.value.exit_code, "--ca FILE" in refused.value.hint) == (code, True)
    assert find(Where("job", ca=Path("/ca"))).server.ca == "/ca"


# Breaks if the author of a job can lead the keys of a person who looks at it to a server of the author's own.
def test_own_keys_take_a_way_of_their_own(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = {"bucket": "runs", "prefix": "demo/job", **WAY}
    api.answers["GET", JOB] = raw_job(checkpoint={"storage": {"s3": s3}})
    own_keys(monkeypatch)
    server = find(Where("job")).server
    assert (server.credentials, server.proxy, server.ca) == (Credentials(), None, None)
    asked = find(Where("job", ca=Path("/ca"), proxy="http://q:1")).server
    assert (asked.proxy, asked.ca) == ("http://q:1", "/ca")


def test_a_person_at_a_job_without_a_proxy_uses_the_own_one(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://own:1")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/own")
    server = find(Where("job")).server
    assert (server.proxy, server.ca) == ("http://own:1", "/own")


def test_the_options_of_a_command(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    own_keys(monkeypatch)
    asked: list[Where] = []
    monkeypatch.setattr("holdfast_cli.storage.address.find", lambda where: asked.append(where) or Found("ftp://"))
    given = ["--ca", "/ca", "--proxy", "http://p:1", "--addressing", "Virtual"]
    assert holdfast("list", "s3://runs/demo/job", *given).exit_code == ExitCode.USAGE
    assert asked == [Where("s3://runs/demo/job", ca=Path("/ca"), proxy="http://p:1", addressing="Virtual")]


@pytest.mark.parametrize("named", [True, False], ids=["with a Secret that is not there", "without a Secret"])
async def test_own_keys_do_not_go_to_an_endpoint_that_only_the_job_names(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Breaks if to open a page or a report is enough to send one's own keys to a tenant's server."""
    s3 = S3 if named else {name: value for name, value in S3.items() if name != "credentialsSecret"}
    job = TrainingJob.parse(raw_job(checkpoint={"storage": {"s3": s3}}))
    api.answers["GET", SECRET] = failure(404, "NotFound", "no")
    own_keys(monkeypatch)
    async with connect(Target(None, "demo")) as client:
        with pytest.raises(CliError, match=r"are not sent to https://s3\.example:9000") as refused:
            await storage_of(client, job, Where("job", "demo"))
        assert "--endpoint https://s3.example:9000" in refused.value.hint
        meant = Where("job", "demo", endpoint="http://127.0.0.1:1")
        assert (await storage_of(client, job, meant)).server.endpoint == "http://127.0.0.1:1"
        api.answers["GET", SECRET] = secret(AWS_ACCESS_KEY_ID="me", AWS_SECRET_ACCESS_KEY="secret")
        if named:
            found = await storage_of(client, job, Where("job", "demo"))
            assert found.server.credentials == Credentials("me", "secret")
