"""What the answers of an S3 store mean: trouble of one moment, or something that a person has to change."""

from typing import Any

import botocore.exceptions
import pytest

from holdfast_train.environment import Credentials
from holdfast_train.errors import StorageDeniedError, StorageError, StorageInvalidError, StorageUnreachableError
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage


@pytest.fixture(autouse=True)
def no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials from wherever the tests run."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def store(*keys: str) -> S3Storage:
    return S3Storage("bucket", "prefix", endpoint="http://127.0.0.1:9", region=None, credentials=Credentials(*keys))


def answered(code: str, status: int, operation: str = "PutObject") -> StorageError:
    """The error that this answer is turned into."""

    class Client:
        def put_object(self, **_: Any) -> None:
            response: Any = {
                "Error": {"Code": code, "Message": "text"}, "ResponseMetadata": {"HTTPStatusCode": status}
            }  # fmt: skip
            raise botocore.exceptions.ClientError(response, operation)

    storage = store("a", "b")
    storage._opened = Client()
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


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "403"])
def test_wrong_keys_are_for_a_person(code: str) -> None:
    assert type(answered(code, 403)) is StorageDeniedError


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

    class Session:
        def client(self, *_: Any, **__: Any) -> None:
            raise botocore.exceptions.CredentialRetrievalError(provider="container-role", error_msg="503")

    def pause(_seconds: float) -> None:
        monkeypatch.setattr("holdfast_train.storage.s3.boto3.session.Session", Working)

    class Working:
        def client(self, *_: Any, **__: Any) -> Any:
            return self

        def put_object(self, **_: Any) -> None:
            pass

    monkeypatch.setattr("holdfast_train.storage.s3.boto3.session.Session", Session)
    storage = store()
    with pytest.raises(StorageUnreachableError, match="at the moment"):
        storage.put("key", b"")
    patient = RetryingStorage(storage, sleep=pause)
    with patient.within(10):
        patient.put("key", b"")


def test_half_a_pair_of_keys_is_for_a_person() -> None:
    with pytest.raises(StorageInvalidError, match="Partial credentials"):
        store("only-the-id")
