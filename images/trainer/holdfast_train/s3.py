"""Checkpoints in an S3 bucket, through boto3."""

import base64
import contextlib
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import boto3
import botocore.exceptions
from botocore.config import Config

from holdfast_train.environment import Credentials
from holdfast_train.errors import (
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageInvalidError,
    StorageNotAtomicError,
    StorageNotFoundError,
    StorageUnreachableError,
)

__all__ = ["S3Storage"]

T = TypeVar("T")
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 20
_DENIED: Final = frozenset(
    {
        "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "InvalidToken",
        "SignatureDoesNotMatch", "401", "403",
    }
)  # fmt: skip
# Refused now, though nobody has to change the job: a clock is set right, and a new pod gets new tokens.
_PASSING: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", "TokenRefreshRequired"}
)
_FULL: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"})
_BUSY: Final = frozenset(
    {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "BadDigest"}
)
_EXISTS: Final = frozenset({"PreconditionFailed", "412"})
_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound"})


class S3Storage:
    """Keys are objects under `prefix` in `bucket`. One instance may be used by several threads."""

    def __init__(
        self, bucket: str, prefix: str, *, endpoint: str | None, region: str | None, credentials: Credentials
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.uri = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self._where = f"{self.uri} at {endpoint}" if endpoint else self.uri
        config = Config(
            # Own stores rarely have a DNS name for every bucket; AWS prefers it.
            s3={"addressing_style": "path" if endpoint else "auto"},
            # boto3's CRC trailers are not understood by every store. Content-MD5, set below, is.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=16,
            tcp_keepalive=True,
            retries={"total_max_attempts": 1},  # Patient tries again, with a deadline that the caller knows
        )
        self._options: dict[str, Any] = {
            "endpoint_url": endpoint,
            "region_name": region or ("us-east-1" if endpoint else None),
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_session_token": credentials.session_token,
            "config": config,
        }
        self._opened: Any = None
        with contextlib.suppress(StorageUnreachableError):  # the first call tries again
            self._opened = self._open()

    def _open(self) -> Any:
        """A client with the credentials that are found now: it keeps them, or that there were none, for its life."""
        try:
            return boto3.session.Session().client("s3", **self._options)
        except (botocore.exceptions.CredentialRetrievalError, botocore.exceptions.MetadataRetrievalError) as error:
            raise StorageUnreachableError(f"no credentials for {self._where} just now: {error}") from error
        except (ValueError, botocore.exceptions.BotoCoreError) as error:
            raise StorageInvalidError(f"the checkpoint storage {self._where} cannot be used: {error}") from error

    @property
    def _client(self) -> Any:
        client = self._opened
        if client is None:
            client = self._opened = self._open()
        return client

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage. A store that does not know If-None-Match raises StorageNotAtomicError."""
        return self._call(key, lambda: self._put(key, body, IfNoneMatch="*"), exists=False) is not False

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage. The store checks Content-MD5, so that bytes damaged on the way are refused."""
        self._call(key, lambda: self._put(key, body))

    def _put(self, key: str, body: bytes | bytearray, **options: str) -> bool:
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=body, ContentMD5=digest, **options)
        return True

    def get(self, key: str) -> bytes:
        """As Storage."""

        def read() -> bytes:
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
            data: bytes = body.read()
            return data

        return self._call(key, read)

    def size(self, key: str) -> int | None:
        """As Storage."""
        try:
            answer = self._call(key, lambda: self._client.head_object(Bucket=self._bucket, Key=self._prefix + key))
        except KeyMissingError:
            return None
        return int(answer["ContentLength"])

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""

        def read() -> list[str]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket,
                Prefix=self._prefix + prefix,
                **({"StartAfter": self._prefix + after} if after else {}),
            )
            return [item["Key"].removeprefix(self._prefix) for page in pages for item in page.get("Contents", ())]

        return sorted(self._call(prefix, read))

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage. One by one: DeleteObjects needs a checksum that stores disagree about."""
        for key in keys:
            self._delete(key)

    def _delete(self, key: str) -> None:
        try:
            self._call(key, lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key))
        except KeyMissingError:
            return

    def _call(self, key: str, function: Callable[[], T], exists: T | None = None) -> T:
        try:
            return function()
        except botocore.exceptions.ClientError as error:
            if exists is not None and error.response.get("Error", {}).get("Code") in _EXISTS:
                return exists
            raise self._translate(key, error) from error
        except botocore.exceptions.NoCredentialsError as error:
            # No keys were given, so they come from a metadata service, which may only be slow to answer.
            self._opened = None
            raise StorageUnreachableError(
                f"no credentials for {self._where} were found; tried again. If the pods have no workload identity, set "
                f"spec.checkpoint.storage.s3.credentialsSecret"
            ) from error
        except botocore.exceptions.PartialCredentialsError as error:
            raise StorageDeniedError(
                f"half of the credentials for {self._where} is missing ({error}); "
                f"set both keys in the Secret of spec.checkpoint.storage.s3.credentialsSecret"
            ) from error
        except botocore.exceptions.ParamValidationError as error:
            raise StorageInvalidError(f"{self._where}: {error}") from error
        except (botocore.exceptions.BotoCoreError, OSError) as error:
            raise StorageUnreachableError(f"{self._where} cannot be reached: {error}") from error

    def _translate(self, key: str, error: botocore.exceptions.ClientError) -> StorageError:
        answer = error.response.get("Error", {})
        code, text = str(answer.get("Code", "")), answer.get("Message", "")
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if code == "NoSuchBucket":
            return StorageNotFoundError(f"the bucket {self._bucket!r} does not exist ({self._where})")
        if code in _MISSING:
            return KeyMissingError(f"{self.uri}/{key} does not exist")
        if code in _FULL:
            return StorageFullError(f"{self._where}: {code}: {text}")
        if code in _PASSING:
            return StorageUnreachableError(f"{self._where} refuses {error.operation_name} just now: {code}: {text}")
        if code in _DENIED or status in (401, 403):
            return StorageDeniedError(f"{self._where} refuses {error.operation_name} of {key!r}: {code}: {text}")
        if code in _BUSY or status in (409, 429) or status >= 500:
            if code == "NotImplemented" or status == 501:
                return StorageNotAtomicError(f"{self._where} has no create-only writes (If-None-Match): {code}: {text}")
            return StorageUnreachableError(f"{self._where}: {code}: {text}")
        return StorageError(f"{self._where}: {error.operation_name} of {key!r}: {code or status}: {text}")
