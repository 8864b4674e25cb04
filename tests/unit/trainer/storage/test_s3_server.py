"""How an S3 server is reached: by the settings of a pod, or by the environment of a person."""

import os
from dataclasses import replace

import pytest
from tests.support.trainer.stores import environment

from holdfast_train.environment import Credentials
from holdfast_train.restore.source import open_address
from holdfast_train.storage.s3_server import S3Server, endpoint_of_person

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.upper() in NAMES]:
        monkeypatch.delenv(name)


WAY = {"checkpoint_ca": "/ca", "checkpoint_proxy": "http://p:1", "checkpoint_addressing": "Virtual"}


def test_in_a_pod_the_settings_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/other")
    found = environment("s3://b/p", checkpoint_endpoint="https://s3.test", checkpoint_region="eu", **WAY)
    server = S3Server.of_checkpoints(found.settings, found.credentials)
    assert server == S3Server("https://s3.test", "eu", found.credentials, "/ca", "http://p:1", "Virtual")


@pytest.mark.parametrize(
    ("said", "endpoint", "changes"),
    [
        ({}, None, {}),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}, "http://b", {}),
        ({"AWS_DEFAULT_REGION": "us", "AWS_REGION": "eu", "AWS_CA_BUNDLE": "/ca"}, None, {"region": "eu", "ca": "/ca"}),
        ({"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://q:1"}, None, {"proxy": "http://p:1"}),
        ({"HTTPS_PROXY": "http://p:1", "AWS_ENDPOINT_URL": "http://a"}, "http://a", {}),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".amazonaws.com"}, None, {}),
    ],
)
def test_elsewhere_the_environment_says_it(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], endpoint: str | None, changes: dict[str, str]
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert endpoint_of_person() == endpoint
    assert S3Server.of_person(endpoint) == replace(S3Server(endpoint), **changes)  # type: ignore[arg-type]


# Breaks if the program's variables for its own data move what its pod loads, or only a part of the job's way counts.
@pytest.mark.parametrize("uri", ["s3://b/p", "file:///volume"])
def test_a_program_loads_as_its_job_does(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    opened: list[S3Server] = []
    monkeypatch.setattr("holdfast_train.restore.source.open_storage", lambda _, server: opened.append(server))
    monkeypatch.setattr("holdfast_train.restore.source.RetryingStorage", lambda storage: storage)
    settings = environment(uri, **WAY).settings
    monkeypatch.setattr("holdfast_train.restore.source.read_settings", lambda _: settings)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://own.test")
    open_address("s3://other/p")
    open_address("s3://other/p", endpoint="https://given.test", region=None, credentials=Credentials("a", "b"))
    own = S3Server(None, None, Credentials(), "/ca", "http://p:1", "Virtual")
    if uri.startswith("file"):
        own = S3Server("https://own.test")
    assert opened == [own, replace(own, endpoint="https://given.test", credentials=Credentials("a", "b"))]
