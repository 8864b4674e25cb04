"""A real S3 server with a private CA, behind a proxy, with buckets in host names that only the proxy can resolve."""

import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.support.free_ports import free_port
from tests.support.http.forward_proxy import ForwardProxy, forward_proxy
from tests.support.http.s3_server import S3Server
from tests.support.trainer.pods import Pod
from tests.support.trainer.stores import stub_command, variables

from holdfast_local.pki import Pki
from holdfast_protocol.settings import Data, Every
from holdfast_train.errors import StorageProxyFailedError, StorageUnreachableError, StorageUntrustedError
from holdfast_train.exchange import command
from holdfast_train.staging.process import open_data
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage

DOMAIN = "store.test"
HOSTS = ("127.0.0.1", DOMAIN, f"*.{DOMAIN}")
# What a program may have for its own data. None of it may reach Holdfast's client.
OTHERS = {
    "AWS_CA_BUNDLE": "/nonexistent", "REQUESTS_CA_BUNDLE": "/nonexistent", "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9",
    "NO_PROXY": "*", "no_proxy": "*",
}  # fmt: skip
IN_PODS = {name: value for name, value in OTHERS.items() if name.isupper()}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory, pki: Pki) -> Iterator[S3Server]:
    """A server whose certificate is of a private CA, and which finds the bucket in the name of its host."""
    tls = pki.issue("store", "store", hosts=HOSTS)
    server = S3Server(tmp_path_factory.mktemp("s3"), tls=tls, options=["--virtual-domain", DOMAIN])
    server.start()
    (server.folder / server.bucket).mkdir()
    yield server
    server.kill()


@pytest.fixture
def proxy(private: S3Server) -> Iterator[ForwardProxy]:
    with forward_proxy({DOMAIN: private.port}) as found:
        yield found


def store(server: S3Server, **way: Any) -> S3Storage:
    return S3Storage(server.bucket, f"ways/{uuid.uuid4().hex}", replace(server.reached, **way))


def check_round_trip(storage: S3Storage) -> None:
    data = memoryview(bytes(range(256)) * (CHUNK_BYTES // 128))
    storage.write("data/x", data, sums=chunk_sums(data))
    assert storage.put_if_absent("log/1", b"one")
    assert not storage.put_if_absent("log/1", b"two")
    back = memoryview(bytearray(len(data)))
    storage.read_into("data/x", 0, back)
    assert (back == data, storage.keys("")) == (True, ["data/x", "log/1"])


@pytest.fixture
def of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("of_the_program")
def test_a_server_with_a_private_ca(private: S3Server, pki: Pki) -> None:
    check_round_trip(store(private, ca=str(pki.cert)))


# Breaks if a certificate that nobody can trust is tried again until the pod's patience is over, as an outage is.
@pytest.mark.parametrize("other", [False, True], ids=["no CA is named", "another CA is named"])
def test_a_certificate_that_is_not_trusted_is_for_a_person(
    private: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki, other: bool
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(pki.cert))  # the program's own data may be there
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pki.cert))
    ca = str(Pki(tmp_path / "other").cert) if other else None
    storage = RetryingStorage(store(private, ca=ca))
    begun = time.monotonic()
    with storage.within(60), pytest.raises(StorageUntrustedError, match=r"certificate of 127\.0\.0\.1:") as found:
        storage.get("x")
    assert time.monotonic() - begun < 10
    assert (found.value.outcome, found.value.exit_code) == ("misconfigured", 78)
    named = f"s3.ca ({ca}) has to have the CA" if other else "name that in spec.checkpoint.storage.s3.ca"
    assert named in str(found.value)


def test_a_certificate_of_another_host(private: S3Server, pki: Pki) -> None:
    storage = store(private, ca=str(pki.cert), endpoint=f"https://localhost:{private.port}")
    with pytest.raises(StorageUntrustedError, match=r"'localhost'.*s3\.endpoint has to have a name that is in the"):
        storage.get("x")


# Breaks if a training has to be restarted because a CA was replaced.
def test_a_ca_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    first, second = Pki(tmp_path / "first"), Pki(tmp_path / "second")
    tls = first.issue("store", "store", hosts=HOSTS)
    (tmp_path / "s3/runs").mkdir(parents=True)
    server = S3Server(tmp_path / "s3", tls=tls)
    server.start()
    ca = Path(shutil.copy(first.cert, tmp_path / "ca.crt"))
    storage = store(server, ca=str(ca))
    storage.put("x", b"1")
    server.kill()
    other = second.issue("store", "store", hosts=HOSTS)
    shutil.copy(other.cert, tls.cert)
    shutil.copy(other.key, tls.key)
    server.start()
    with pytest.raises(StorageUntrustedError):
        storage.get("x")
    shutil.copy(second.cert, ca)
    assert storage.get("x") == b"1"
    server.kill()


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), ("", "PEM"), ("nonsense", "PEM"), ("x" * ((1 << 20) + 1), "at most 1048576")],
)
def test_a_ca_that_cannot_be_read(private: S3Server, tmp_path: Path, content: str | None, why: str) -> None:
    if content is not None:
        (tmp_path / "ca.crt").write_text(content)
    with pytest.raises(StorageUntrustedError, match=rf"s3\.ca cannot be read from {tmp_path}/ca\.crt: .*{why}"):
        store(private, ca=str(tmp_path / "ca.crt"))


@pytest.mark.usefixtures("of_the_program")
def test_tls_through_a_proxy(private: S3Server, proxy: ForwardProxy, pki: Pki) -> None:
    check_round_trip(store(private, ca=str(pki.cert), proxy=proxy.address))
    assert set(proxy.seen) == {("CONNECT", f"127.0.0.1:{private.port}")}


@pytest.mark.usefixtures("of_the_program")
def test_plain_http_through_a_proxy(s3: S3Server) -> None:
    with forward_proxy({}) as proxy:
        check_round_trip(store(s3, proxy=proxy.address))
        assert {method for method, _ in proxy.seen} == {"GET", "PUT"}
        assert all(target.startswith(f"{s3.endpoint}/{s3.bucket}") for _, target in proxy.seen)


@pytest.mark.usefixtures("of_the_program")
def test_without_a_proxy_there_is_none(s3: S3Server) -> None:
    check_round_trip(store(s3))


@pytest.mark.parametrize(("addressing", "host"), [("Virtual", f"runs.{DOMAIN}"), ("Path", DOMAIN), ("Auto", DOMAIN)])
def test_where_the_bucket_is_named(
    private: S3Server, proxy: ForwardProxy, pki: Pki, addressing: str, host: str
) -> None:
    way = {"ca": str(pki.cert), "proxy": proxy.address, "endpoint": f"https://{DOMAIN}", "addressing": addressing}
    check_round_trip(store(private, **way))
    assert set(proxy.seen) == {("CONNECT", f"{host}:443")}


REFUSALS = [HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED]


# Breaks if a proxy that does not let pods through counts as an outage of the storage, which is tried again for ever.
@pytest.mark.parametrize("status", REFUSALS)
def test_a_proxy_that_refuses(private: S3Server, proxy: ForwardProxy, pki: Pki, status: HTTPStatus) -> None:
    proxy.refuses = status
    storage = RetryingStorage(store(private, ca=str(pki.cert), proxy=proxy.address))
    with storage.within(0.3), pytest.raises(StorageProxyFailedError, match=rf"s3\.proxy refuses: .*{status}") as found:
        storage.get("x")
    assert (found.value.outcome, found.value.exit_code) == ("misconfigured", 78)
    assert len(proxy.seen) > 1, "a proxy that starts again is waited for"


def test_a_proxy_that_wants_a_password_for_plain_http(s3: S3Server) -> None:
    with forward_proxy({}) as proxy:
        proxy.refuses = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        with pytest.raises(StorageProxyFailedError, match=r"s3\.proxy refuses: 407"):
            store(s3, proxy=proxy.address).get("x")


@pytest.mark.parametrize("address", ["http://127.0.0.1:PORT", "http://proxy.invalid:3128"])
def test_a_proxy_that_is_not_there(private: S3Server, s3: S3Server, pki: Pki, address: str) -> None:
    address = address.replace("PORT", str(free_port()))
    for storage in (store(private, ca=str(pki.cert), proxy=address), store(s3, proxy=address)):
        with pytest.raises(StorageProxyFailedError, match=rf"the proxy {address} of .*s3\.proxy cannot be reached"):
            storage.get("x")


# Breaks if an outage of the store is blamed on the proxy, and pauses jobs that only have to wait.
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_store_that_is_away_behind_its_proxy(private: S3Server, proxy: ForwardProxy, scheme: str) -> None:
    storage = store(private, proxy=proxy.address, endpoint=f"{scheme}://127.0.0.1:{free_port()}")
    with pytest.raises(StorageUnreachableError) as found:
        storage.get("x")
    assert type(found.value) is StorageUnreachableError


@pytest.fixture
def way(private: S3Server, proxy: ForwardProxy, pki: Pki) -> dict[str, Any]:
    """The settings of a pod for all three at once."""
    return {
        **private.variables, "checkpoint_endpoint": f"https://{DOMAIN}", "checkpoint_ca": str(pki.cert),
        "checkpoint_proxy": proxy.address, "checkpoint_addressing": "Virtual",
    }  # fmt: skip


# Breaks if one of the processes of a pod reaches the store in another way than the job says.
def test_every_process_of_a_pod(tmp_path: Path, way: dict[str, Any], proxy: ForwardProxy) -> None:
    uri = f"s3://runs/pods/{uuid.uuid4().hex}"
    init = [sys.executable, "-m", "holdfast_train.pod.init_container"]
    assert Pod(tmp_path, init, **variables(uri, **way), **IN_PODS).process.wait(60) == 0
    steps = ["--steps=60", "--step-seconds=0.02"]
    first = Pod(tmp_path, stub_command(*steps), **variables(uri, 1, **way, every=Every(5)), **IN_PODS)
    first.wait_for("saved step 10")
    first.kill_program()
    second = Pod(tmp_path, stub_command(*steps), **variables(uri, 2, **way), **IN_PODS)
    assert second.end()["outcome"] == "completed", second.output
    assert "resumed from step " in second.output
    assert {target for _, target in proxy.seen} == {f"runs.{DOMAIN}:443"}


@pytest.mark.parametrize(("field", "reason"), [("ca", "StorageUntrusted"), ("proxy", "StorageProxyFailed")])
def test_a_pod_says_what_a_person_has_to_correct(tmp_path: Path, way: dict[str, Any], field: str, reason: str) -> None:
    wrong = {"checkpoint_ca": None} if field == "ca" else {"checkpoint_proxy": f"http://127.0.0.1:{free_port()}"}
    init = [sys.executable, "-m", "holdfast_train.pod.init_container", "--patience", "1"]
    pod = Pod(tmp_path, init, **variables("s3://runs/none", **{**way, **wrong}), AWS_CA_BUNDLE=way["checkpoint_ca"])
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], pod.process.returncode) == ("misconfigured", reason, 78)
    assert f"spec.checkpoint.storage.s3.{field}" in verdict["message"]


def test_data_comes_in_a_way_of_its_own(private: S3Server, proxy: ForwardProxy, pki: Pki, tmp_path: Path) -> None:
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text(private.access_key)
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text(private.secret_key)
    store(private, ca=str(pki.cert)).put("x", b"1")
    endpoint = f"https://{DOMAIN}"
    way = Data(
        "s3://runs/ways", "/data", "/data", endpoint, None, str(tmp_path), str(pki.cert), proxy.address, "Virtual"
    )
    found = open_data(way)
    assert found.keys("")
    assert set(proxy.seen) == {("CONNECT", f"runs.{DOMAIN}:443")}


# Breaks if a person reaches a storage in fewer ways than a job, or the variables of a person's shell do not count.
@pytest.mark.parametrize("by", ["options", "variables"])
def test_a_command_of_a_person(
    way: dict[str, Any], proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    ca = way["checkpoint_ca"]
    for name in [*OTHERS, "AWS_PROFILE"]:
        monkeypatch.delenv(name, raising=False)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", way[f"HOLDFAST_CHECKPOINT_{name}"])
    given = ["--endpoint", f"https://{DOMAIN}", "--addressing", "Virtual"]
    if by == "options":
        given += ["--ca", ca, "--proxy", proxy.address]
    else:
        monkeypatch.setenv("AWS_CA_BUNDLE", ca)
        monkeypatch.setenv("https_proxy", proxy.address)
    weights = tmp_path / "x.pt"
    torch = pytest.importorskip("torch")
    torch.save({"model": {"x": torch.zeros(2)}}, weights)
    assert command.main(["import", str(weights), "--to", f"s3://runs/{by}", *given]) == 0
    assert {target for _, target in proxy.seen} == {f"runs.{DOMAIN}:443"}
