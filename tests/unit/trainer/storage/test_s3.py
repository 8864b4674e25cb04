"""What the answers of an S3 store mean: trouble of one moment, or something that a person has to change."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import botocore.exceptions
import botocore.loaders
import botocore.session
import pytest
from tests.support.trainer.secret_files import SecretFiles

from holdfast_local.pki import Pki
from holdfast_protocol.settings import Addressing
from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageDeniedError, StorageError, StorageInvalidError, StorageUnreachableError
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server


@pytest.fixture(autouse=True)
def no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials from wherever the tests run."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def store(*keys: str) -> S3Storage:
    return S3Storage("bucket", "prefix", S3Server("http://127.0.0.1:9", credentials=Credentials(*keys)))


def busy(*_: Any, **__: Any) -> None:
    """No credentials at the moment."""
    raise botocore.exceptions.CredentialRetrievalError(provider="container-role", error_msg="503")


def answered(code: str, status: int, operation: str = "PutObject") -> StorageError:
    """The error that this answer is turned into."""

    class Client:
        def put_object(self, **_: Any) -> None:
            response: Any = {
                "Error": {"Code": code, "Message": "text"}, "ResponseMetadata": {"HTTPStatusCode": status}
            }  # fmt: skip
            raise botocore.exceptions.ClientError(response, operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session.Session, "create_client", lambda *_, **__: Client())
        storage = store("a", "b")
    with pytest.raises(StorageError) as found:
        storage.put("key", b"")
    assert code in str(found.value)
    return found.value


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("RequestTimeTooSkewed", 403),
        ("ExpiredToken", 400),
        ("ExpiredTokenException", 400),
        ("TokenRefreshRequired", 400),
        ("RequestExpired", 400),
        ("SlowDown", 503),
    ],
)
def test_trouble_of_a_moment_is_tried_again(code: str, status: int) -> None:
    """A clock that was wrong for a minute must not end a job for good."""
    assert type(answered(code, status)) is StorageUnreachableError


@pytest.mark.parametrize(
    "code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound", "AccessDenied", "403"]
)
def test_wrong_keys_are_for_a_person(code: str) -> None:
    assert type(answered(code, 403)) is StorageDeniedError


class Store:
    """A store, and the `storage` in it: it answers 1 to each key in `valid`, and otherwise refuses with `code`."""

    def __init__(self, files: SecretFiles, monkeypatch: pytest.MonkeyPatch, code: str, status: int) -> None:
        self.valid: set[str] = set()
        self.refused = 0
        self.before: Callable[[], None] = lambda: None
        parent = self

        class Client:
            """Signs with the keys that were there when it was made, as a real client does for ten seconds."""

            def __init__(self, session: Any) -> None:
                self.key = session.get_credentials().access_key

            def head_object(self, **_: Any) -> dict[str, Any]:
                parent.before()
                if self.key in parent.valid:
                    return {"ContentLength": 1}
                parent.refused += 1
                response: Any = {"Error": {"Code": code, "Message": f"{self.key} is not accepted"}}
                raise botocore.exceptions.ClientError(
                    response | {"ResponseMetadata": {"HTTPStatusCode": status}}, "HeadObject"
                )

        monkeypatch.setattr(botocore.session.Session, "create_client", lambda session, *_, **__: Client(session))
        keys = Credentials("at-start", "secret", folder=str(files.folder))
        self.storage = S3Storage("bucket", "prefix", S3Server("http://127.0.0.1:9", credentials=keys))


REFUSALS = [
    ("InvalidAccessKeyId", 403),
    ("XAdminUserNotFound", 404),
    ("SignatureDoesNotMatch", 403),
    ("ExpiredToken", 400),
    ("Unauthorized", 401),  # Cloudflare's R2
    ("403", 403),
]


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_a_refused_request_is_repeated_at_once_with_newer_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    """Breaks if a save fails although the new keys are there already."""
    files = SecretFiles(tmp_path / "keys")
    store = Store(files, monkeypatch, code, status)
    storage = store.storage
    store.valid = {"at-start"}
    assert storage.size("x") == 1
    files.put("second", "secret")
    store.valid = {"second"}
    assert (storage.size("x"), store.refused) == (1, 1)


def test_a_request_that_began_with_replaced_keys_is_repeated_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Breaks if of several threads only one is repeated, and the parts of the others are lost."""
    files = SecretFiles(tmp_path / "keys")
    store = Store(files, monkeypatch, "InvalidAccessKeyId", 403)
    storage = store.storage
    store.valid = {"at-start"}
    assert storage.size("x") == 1
    files.put("second", "secret")

    def by_another_thread() -> None:
        store.before, store.valid = lambda: None, {"second"}
        assert storage.size("y") == 1

    store.before = by_another_thread
    assert storage.size("x") == 1


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_keys_that_have_worked_may_be_replaced_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    """Breaks if the last save of a training is given up in the minute until the kubelet has changed the files."""
    store = Store(SecretFiles(tmp_path / "keys"), monkeypatch, code, status)
    storage = store.storage
    denied = StorageUnreachableError if code == "ExpiredToken" else StorageDeniedError
    with pytest.raises(denied):
        storage.size("x")  # wrong from the start: for a person
    store.valid = {"at-start"}
    assert storage.size("x") == 1
    store.valid = set()
    with pytest.raises(StorageDeniedError if code == "403" else StorageUnreachableError) as found:
        storage.size("x")
    assert "at-start" not in str(found.value)
    assert "... is not accepted" in str(found.value)


def test_several_threads_open_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if each of many uploads of a save asks a metadata service for credentials, which then refuses some."""
    together, opened = Barrier(8), list[object]()

    class Client:
        def __init__(self) -> None:
            opened.append(self)
            Event().wait(0.05)

        def head_object(self, **_: Any) -> dict[str, Any]:
            return {"ContentLength": 1}

    def size(_: int) -> int:
        together.wait(10)
        return storage.size("x")

    monkeypatch.setattr(botocore.session.Session, "create_client", busy)
    storage = store("a", "b")
    monkeypatch.setattr(botocore.session.Session, "create_client", lambda *_, **__: Client())
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(size, range(8))) == {1}
    assert len(opened) == 1


def test_credentials_that_come_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client keeps for its life that there were none: a new try needs a new one."""
    storage = store()
    with pytest.raises(StorageUnreachableError, match="no credentials for s3://bucket/prefix"):
        storage.get("key")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "late")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    with pytest.raises(StorageUnreachableError, match="cannot be reached"):  # now it gets as far as the network
        storage.get("key")


def test_credential_service_that_hiccups_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked when the client is made, which must not be the end of the pod either."""

    class Client:
        def put_object(self, **_: Any) -> None:
            pass

    def pause(_seconds: float) -> None:
        monkeypatch.setattr(botocore.session.Session, "create_client", lambda *_, **__: Client())

    monkeypatch.setattr(botocore.session.Session, "create_client", busy)
    storage = store()
    with pytest.raises(StorageUnreachableError, match="at the moment"):
        storage.put("key", b"")
    patient = RetryingStorage(storage, sleep=pause)
    with patient.within(10):
        patient.put("key", b"")


# Breaks if each storage parses botocore's descriptions of services anew: that takes 0.1 s.
def test_descriptions_of_services_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store("id", "key")
    read: list[str] = []
    monkeypatch.setattr(botocore.loaders.JSONFileLoader, "load_file", lambda _, path: read.append(path))
    store("id", "key")
    assert not read


def test_half_a_pair_of_keys_is_for_a_person() -> None:
    with pytest.raises(StorageInvalidError, match="Partial credentials"):
        store("only-the-id")


# Breaks if what a program needs for its own data moves its checkpoints, or ends Holdfast's client.
@pytest.mark.parametrize("in_files", [False, True], ids=["keys in variables", "keys in files"])
@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_ENDPOINT_URL": "http://data:9000"},
        {"AWS_ENDPOINT_URL_S3": "http://data:9000"},
        {"AWS_PROFILE": "data"},
        {"AWS_DEFAULT_PROFILE": "data"},
        {"AWS_CONFIG_FILE": "config"},
        {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
        {"AWS_CA_BUNDLE": "/nonexistent"},
        {"REQUESTS_CA_BUNDLE": "/nonexistent"},
        {"HTTPS_PROXY": "http://proxy:3128", "https_proxy": "http://proxy:3128"},
        {"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "9", "AWS_DEFAULTS_MODE": "mobile"},
    ],
)
def test_the_variables_of_the_program_do_not_move_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], in_files: bool
) -> None:
    said = "[default]\nendpoint_url = http://data:9000\ns3 =\n  use_accelerate_endpoint = true\n"
    (tmp_path / "config").write_text(said)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value) if name == "AWS_CONFIG_FILE" else value)
    keys = Credentials(None, None, None, str(tmp_path)) if in_files else Credentials("me", "secret")
    if in_files:
        (tmp_path / "AWS_ACCESS_KEY_ID").write_text("me")
        (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("secret")
    client = S3Storage("runs", "x", S3Server(None, "eu-central-1", keys))._client
    url = client.generate_presigned_url("get_object", Params={"Bucket": "runs", "Key": "x/y"})
    assert url.startswith("https://runs.s3.amazonaws.com/x/y?")
    session = client._endpoint.http_session
    assert (session._verify, session._proxy_config.proxy_url_for(url)) == (True, None)
    assert client.meta.config.retries == {"total_max_attempts": 1, "mode": "standard"}


# Breaks if a pod that reaches AWS only through a proxy, or by a private CA, gets no keys for its identity.
def test_the_way_to_the_storage_is_also_the_way_to_the_keys_of_an_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nonexistent")
    monkeypatch.setenv("HTTPS_PROXY", "http://other:3128")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")  # it would slow down what the store has slowed down already
    ca = Pki(tmp_path).cert
    named = S3Server(None, "eu-central-1", ca=str(ca), proxy="http://proxy:3128")
    for server, verify, proxy in ((named, str(ca), "http://proxy:3128"), (S3Server(None, "eu-central-1"), True, None)):
        storage = S3Storage("runs", "x", server)
        asked = storage._session.create_client("sts", region_name="eu-central-1")._endpoint.http_session
        found = asked._proxy_config.proxy_url_for("https://sts.eu-central-1.amazonaws.com")
        assert (asked._verify, found) == (verify, proxy)
        assert storage._client.meta.config.retries["mode"] == "standard"


@pytest.mark.parametrize("code", ["SecondLevelDomainForbidden", "PathStyleDomainForbidden"])
def test_a_store_that_wants_the_bucket_in_its_name_is_told_so(code: str) -> None:
    assert "set spec.checkpoint.storage.s3.addressing to Virtual" in str(answered(code, 403))


# Breaks if requests go to another address than Virtual says, without a word.
@pytest.mark.parametrize(
    ("bucket", "endpoint"),
    [
        ("my.runs", None),
        ("my.runs", "https://oss.example"),
        ("runs", "https://10.0.0.1:9000"),
        ("runs", "http://[::1]"),
    ],
)
def test_a_bucket_that_cannot_be_a_part_of_a_name(bucket: str, endpoint: str | None) -> None:
    with pytest.raises(StorageInvalidError, match=r"s3\.addressing is Virtual; allowed with a bucket without a dot"):
        S3Storage(bucket, "x", S3Server(endpoint, addressing="Virtual"))


@pytest.mark.parametrize(
    ("endpoint", "addressing", "begin"),
    [
        (None, "Auto", "https://runs.s3.amazonaws.com/x"),
        (None, "Path", "https://s3.eu-central-1.amazonaws.com/runs/x"),
        ("https://oss.example", "Auto", "https://oss.example/runs/x"),
        ("https://oss.example", "Virtual", "https://runs.oss.example/x"),
        ("http://localhost:9000", "Virtual", "http://runs.localhost:9000/x"),
    ],
)
def test_where_requests_name_the_bucket(endpoint: str | None, addressing: Addressing, begin: str) -> None:
    keys = Credentials("me", "secret")
    storage = S3Storage("runs", "x", S3Server(endpoint, "eu-central-1", keys, addressing=addressing))
    for client in (storage._client, storage._data_client()):
        url = client.generate_presigned_url("get_object", Params={"Bucket": "runs", "Key": "x"})
        assert url.startswith(f"{begin}?")
