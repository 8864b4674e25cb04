"""A storage in an S3 bucket, through botocore."""

import base64
import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import botocore.exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from holdfast_train.errors import (
    CheckpointCorruptError,
    KeyChangedError,
    KeyMissingError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageInvalidError,
    StorageNotAtomicError,
    StorageNotFoundError,
    StorageUnreachableError,
)
from holdfast_train.say import say
from holdfast_train.storage.base import Entry, join_uri
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.s3_download import Body
from holdfast_train.storage.s3_keys import KeyFiles, session_of_given_keys, session_of_identity
from holdfast_train.storage.s3_server import S3Server
from holdfast_train.storage.s3_way import FIELD, check, check_answer, refused_by_proxy, unreachable

if TYPE_CHECKING:
    from holdfast_train.storage.s3_upload import Uploader

T = TypeVar("T")
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 20
LARGE_BYTES: Final = 64 << 10
PART_BYTES: Final = 64 << 20
PARALLEL: Final = min(16, max(4, 2 * (os.cpu_count() or 1)))  # connections; one to a real store carries about 0.1 GB/s
_DENIED: Final = frozenset(
    {
        "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "InvalidToken",
        "SignatureDoesNotMatch", "XAdminUserNotFound", "401", "403",
    }
)  # fmt: skip
# Refusals that pass without a change to the job: a clock is corrected, and a new pod gets new tokens.
_PASSING: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", "TokenRefreshRequired"}
)
# Refusals of the keys, not of a right. They pass too if the keys lie in files and have worked: a kubelet changes the
# files a minute or two after the Secret. Status 401 is one of them with any code (Cloudflare's R2).
_REPLACED: Final = frozenset({"InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "XAdminUserNotFound"})
_FULL: Final = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"})
_BUSY: Final = frozenset(
    {
        "BadDigest", "IncompleteBody", "InternalError", "InvalidPart", "NoSuchUpload", "OperationAborted",
        "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "XAmzContentChecksumMismatch",
    }
)  # fmt: skip
_NO_PATHS: Final = frozenset({"SecondLevelDomainForbidden", "PathStyleDomainForbidden"})  # Alibaba OSS, Tencent COS
_EXISTS: Final = frozenset({"PreconditionFailed", "412"})
_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_BEYOND: Final = frozenset({"InvalidRange", "416"})


class S3Storage:
    """Keys are objects under `prefix` in `bucket`. Several threads may use one instance.

    A store is unreachable if a connection takes longer than `connect_seconds`, or an answer longer than `read_seconds`.
    Data is written in parts of at most `part_bytes`, `parallel` parts at once.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        server: S3Server,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        part_bytes: int = PART_BYTES,
        parallel: int = PARALLEL,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self.uri = f"s3://{bucket}/{self._prefix}".rstrip("/")
        self._server = server
        self._where = f"{self.uri} at {server.endpoint}" if server.endpoint else self.uri
        config = Config(
            # What is not said here, the variables and files of the program could say, which are for its own data.
            s3={"addressing_style": server.style, "use_accelerate_endpoint": False},
            proxies=dict.fromkeys(("http", "https"), server.proxy) if server.proxy else {},
            ignore_configured_endpoint_urls=True,
            use_dualstack_endpoint=False,
            use_fips_endpoint=False,
            # Not every store supports boto3's CRC trailers. Every store supports Content-MD5, set below.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=connect_seconds,
            read_timeout=read_seconds,
            max_pool_connections=max(16, parallel),
            tcp_keepalive=True,
            # One attempt: RetryingStorage repeats calls, with a deadline that the caller sets.
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        credentials = server.credentials
        self._keys = None if credentials.folder is None else KeyFiles(credentials, credentials.folder, say)
        self._credentials = credentials
        self._has_worked = False
        self._options: dict[str, Any] = {
            "endpoint_url": server.endpoint,
            "region_name": server.region or ("us-east-1" if server.endpoint else None),
            "verify": server.ca or True,
            "config": config,
        }
        if self._keys is None:
            self._options |= {
                "aws_access_key_id": credentials.access_key_id,
                "aws_secret_access_key": credentials.secret_access_key,
                "aws_session_token": credentials.session_token,
            }
        # Data requests carry a signed checksum, so the signature need not cover every byte again.
        self._data_config = config.merge(Config(s3={**config.s3, "payload_signing_enabled": False}))
        self._part_bytes = part_bytes
        self._parallel = parallel
        self._lock = threading.RLock()  # of the clients and the uploader
        self._uploads: Uploader | None = None
        self._session: Any = None
        self._opened: Any = None
        self._opened_for_data: Any = None
        with contextlib.suppress(StorageUnreachableError):  # the first call opens it again
            self._opened = self._open()

    def _open(self) -> Any:
        """A client with the credentials available now.

        Keys in files are read again from time to time. Otherwise a client never looks for credentials a second time.
        """
        check(self._server, self._bucket, self._where)
        if self._keys is not None:
            self._session = self._keys.session()
        elif self._credentials.access_key_id is not None:
            self._session = session_of_given_keys()
        else:
            self._session = session_of_identity(self._options["config"].proxies, self._options["verify"])
        self._session.register("after-call.s3", partial(check_answer, self._where))
        return self._open_client(self._options)

    def _open_client(self, options: dict[str, Any]) -> Any:
        try:
            return self._session.create_client("s3", **options)
        except (botocore.exceptions.CredentialRetrievalError, botocore.exceptions.MetadataRetrievalError) as error:
            raise StorageUnreachableError(
                f"the credentials for {self._where} cannot be read at the moment: {error}"
            ) from error
        except botocore.exceptions.BotoCoreError as error:
            raise StorageInvalidError(f"the checkpoint storage {self._where} cannot be used: {error}") from error
        except ValueError as error:  # boto3 names the invalid endpoint, but not the allowed form
            raise StorageInvalidError(
                f"the checkpoint storage {self._where} cannot be used: {error}; give the endpoint as https://host:port"
            ) from error

    @property
    def _client(self) -> Any:
        client = self._opened
        if client is None:
            with self._lock:  # otherwise each thread asks for credentials
                client = self._opened = self._opened or self._open()
        return client

    def _data_client(self) -> Any:
        """The client for data, of the same session: credentials are renewed once for both clients."""
        with self._lock:
            if self._opened_for_data is None:
                assert self._client is not None  # opens the session
                self._opened_for_data = self._open_client({**self._options, "config": self._data_config})
            return self._opened_for_data

    def _uploader(self) -> "Uploader":
        """The uploader. The first upload imports and creates it: a process that only reads the log does not need it."""
        from holdfast_train.storage.s3_upload import Uploader  # noqa: PLC0415

        with self._lock:
            if self._uploads is None:
                self._uploads = Uploader(
                    self._data_client, self._call, part_bytes=self._part_bytes, parallel=self._parallel, say=say
                )
            return self._uploads

    def _target(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """As Storage. StorageNotAtomicError if the store does not support If-None-Match."""
        return self._call(key, lambda: self._put(key, body, IfNoneMatch="*"), exists=False) is not False

    def put(self, key: str, body: bytes | bytearray) -> None:
        """As Storage. The store checks Content-MD5 and refuses bytes that were damaged on the way."""
        self._call(key, lambda: self._put(key, body))

    def _put(self, key: str, body: bytes | bytearray, **options: str) -> bool:
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        # A file is sent in blocks: a socket has as much time for one block as for all bytes at once.
        sent = body if len(body) <= LARGE_BYTES else io.BytesIO(body)
        self._client.put_object(**self._target(key), Body=sent, ContentMD5=digest, **options)
        return True

    def write(self, key: str, data: memoryview, *, sums: Sequence[str] = (), rate: RateLimit | None = None) -> None:
        """As Storage. The store checks each part and the whole object, and refuses damaged bytes."""
        self._uploader().write(key, self._target(key), data, sums, rate)

    def copy_from(self, uri: str, key: str) -> bool:
        """As Storage. With the same keys, on the same server."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        source = {"Bucket": bucket, "Key": join_uri(prefix, key)}
        try:
            self._call(key, lambda: self._client.copy_object(**self._target(key), CopySource=source))
        except StorageUnreachableError:
            raise
        except StorageError:
            return False
        return True

    def get(self, key: str) -> bytes:
        """As Storage."""

        def read() -> bytes:
            body = self._client.get_object(**self._target(key))["Body"]
            data: bytes = body.read()
            return data

        return self._call(key, read)

    def read_into(self, key: str, start: int, *views: memoryview, version: str = "") -> None:
        """As Storage. One GET of a range; callers read several ranges at once."""
        if any(views):
            self._call(key, lambda: self._fill(key, start, views, version))

    def _fill(self, key: str, start: int, views: Sequence[memoryview], version: str) -> None:
        wanted = sum(map(len, views))
        end = start + wanted
        options = {"IfMatch": version} if version else {}
        try:
            answer = self._data_client().get_object(**self._target(key), Range=f"bytes={start}-{end - 1}", **options)
        except botocore.exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if version and code in _EXISTS:
                raise KeyChangedError(f"{self.uri}/{key} was written again since it was listed") from error
            if code in _BEYOND:
                raise CheckpointCorruptError(
                    f"{self.uri}/{key} has fewer than {start + 1} bytes; expected bytes {start} to {end}"
                ) from error
            raise
        if version and answer.get("ETag", version).strip('"') != version.strip(
            '"'
        ):  # not every store supports If-Match
            raise KeyChangedError(f"{self.uri}/{key} was written again since it was listed")
        with contextlib.closing(Body(answer["Body"])) as body:
            if answer["ContentLength"] != wanted:
                total = answer.get("ContentRange", "").rpartition("/")[2] or answer["ContentLength"]
                raise CheckpointCorruptError(f"{self.uri}/{key} has {total} bytes; expected bytes {start} to {end}")
            done = body.fill(*views)
            if done < wanted:
                raise ConnectionError(f"the answer ended after {done} of {wanted} bytes of {key!r}")

    def size(self, key: str) -> int | None:
        """As Storage."""
        try:
            answer = self._call(key, lambda: self._client.head_object(**self._target(key)))
        except KeyMissingError:
            return None
        return int(answer["ContentLength"])

    def keys(self, prefix: str, after: str = "") -> list[str]:
        """As Storage."""
        return [entry.key for entry in self._list(prefix, after)]

    def entries(self, prefix: str) -> list[Entry]:
        """As Storage."""
        return self._list(prefix)

    def _list(self, prefix: str, after: str = "") -> list[Entry]:
        def read() -> list[Entry]:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket,
                Prefix=self._prefix + prefix,
                **({"StartAfter": self._prefix + after} if after else {}),
            )
            return [
                Entry(
                    item["Key"].removeprefix(self._prefix),
                    int(item["Size"]),
                    item["LastModified"],
                    item.get("ETag", ""),
                )
                for page in pages
                for item in page.get("Contents", ())
            ]

        return sorted(self._call(prefix, read), key=lambda entry: entry.key)

    def delete(self, keys: Iterable[str]) -> None:
        """As Storage. One request for each key: stores disagree about the checksum that DeleteObjects needs."""
        for key in keys:
            self._delete(key)

    def _delete(self, key: str) -> None:
        try:
            self._call(key, lambda: self._client.delete_object(**self._target(key)))
        except KeyMissingError:
            return

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """As Storage. These are multipart uploads that were neither completed nor aborted."""

        def read() -> list[dict[str, Any]]:
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            return [found for page in pages for found in page.get("Uploads", ())]

        old = [found for found in self._call(prefix, read) if found["Initiated"] < before]
        for found in old:
            upload = {"Bucket": self._bucket, "Key": found["Key"], "UploadId": found["UploadId"]}
            self._call(prefix, lambda: self._client.abort_multipart_upload(**upload))  # noqa: B023
        return len(old)

    def _call(self, key: str, function: Callable[[], T], exists: T | None = None) -> T:
        """The answer of `function`, and `exists` if the key exists. After a denial it asks again with newer keys."""
        used = None if self._keys is None else self._keys.newest
        try:
            return self._try(key, function, exists)
        except StorageError as error:
            if self._keys is None or not _concerns_keys(error) or self._keys.read() == used:
                raise
            if self._keys.newest == used:  # otherwise another thread has opened clients with newer keys
                self._opened = self._opened_for_data = None
            return self._try(key, function, exists)

    def _try(self, key: str, function: Callable[[], T], exists: T | None) -> T:
        try:
            answer = function()
        except botocore.exceptions.ClientError as error:
            if exists is not None and error.response.get("Error", {}).get("Code") in _EXISTS:
                return exists
            raise self._translate(key, error, create_only=exists is not None) from error
        except botocore.exceptions.NoCredentialsError as error:
            # Without explicit keys they come from a metadata service, which may be slow to answer.
            self._opened = self._opened_for_data = None
            raise StorageUnreachableError(
                f"found no credentials for {self._where}, trying again. If the pods have no workload identity, set "
                f"spec.checkpoint.storage.s3.credentialsSecret"
            ) from error
        except botocore.exceptions.PartialCredentialsError as error:
            raise StorageDeniedError(
                f"one of the two keys for {self._where} is missing ({error}); "
                f"set both keys in the Secret of spec.checkpoint.storage.s3.credentialsSecret"
            ) from error
        except botocore.exceptions.ParamValidationError as error:
            raise StorageInvalidError(f"{self._where}: {error}") from error
        except (botocore.exceptions.BotoCoreError, ResponseParserError, OSError) as error:
            raise unreachable(error, self._server, self._where) from error
        self._has_worked = True
        return answer

    def _translate(self, key: str, error: botocore.exceptions.ClientError, *, create_only: bool) -> StorageError:
        answer = error.response.get("Error", {})
        code, text = str(answer.get("Code", "")), str(answer.get("Message", ""))
        for value in (self._credentials if self._keys is None else self._keys.newest).values:
            text = text.replace(value, "...")
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status == 407:
            return refused_by_proxy(f"{status} {text}", self._server, self._where)
        if code == "NoSuchBucket":
            return StorageNotFoundError(f"the bucket {self._bucket!r} does not exist ({self._where})")
        if code in _MISSING:
            return KeyMissingError(f"{self.uri}/{key} does not exist")
        if code in _FULL:
            return StorageFullError(f"{self._where}: {code}: {text}")
        replaced = (code in _REPLACED or status == 401) and self._keys is not None and self._has_worked
        if code in _PASSING or replaced:
            return StorageUnreachableError(
                f"{self._where} refuses {error.operation_name} at the moment: {code}: {text}"
            )
        if code in _NO_PATHS:
            text = f"{text}; set {FIELD}.addressing to Virtual"
        if code in _DENIED or status in (401, 403):
            return StorageDeniedError(
                f"{self._where} refuses {error.operation_name} of {key!r}: {code or status}: {text}"
            )
        if create_only and (code == "NotImplemented" or status == 501):
            return StorageNotAtomicError(
                f"{self._where} does not support create-only writes (If-None-Match): {code}: {text}"
            )
        if code in _BUSY or status in (409, 429) or (status >= 500 and status != 501):
            return StorageUnreachableError(f"{self._where}: {code}: {text}")
        return StorageError(f"{self._where}: {error.operation_name} of {key!r}: {code or status}: {text}")


def _concerns_keys(error: StorageError) -> bool:
    """True if the store has denied a request for which other keys may be accepted."""
    cause = error.__cause__
    if not isinstance(cause, botocore.exceptions.ClientError):
        return False
    code, status = cause.response.get("Error", {}).get("Code"), cause.response.get("ResponseMetadata", {})
    is_denied = isinstance(error, StorageDeniedError) or status.get("HTTPStatusCode") == 401
    return is_denied or code in _PASSING | _REPLACED
