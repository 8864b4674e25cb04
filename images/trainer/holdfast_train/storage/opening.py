"""Open the storage at an address."""

from collections.abc import Callable

from holdfast_train.environment import Environment
from holdfast_train.errors import StorageInvalidError
from holdfast_train.progress import Silence
from holdfast_train.storage.base import Storage
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3_server import S3Server


def open_retrying(
    environment: Environment, uri: str, on_silence: Callable[[Silence | None], None] = lambda _: None
) -> RetryingStorage:
    """The storage at `uri`, with retries; an S3 server is reached as the job says. StorageInvalidError.

    `on_silence`: see RetryingStorage.
    """
    server = S3Server.of_checkpoints(environment.settings, environment.credentials)
    return RetryingStorage(open_storage(uri, server), on_silence=on_silence)


def open_storage(uri: str, server: S3Server | None = None) -> Storage:
    """The storage at `uri`: `s3://bucket/prefix` or `file:///folder`. StorageInvalidError if `uri` is neither.

    This opens no connection. boto3 is imported only for S3: its import takes longer than the start of a small trainer.
    """
    scheme, separator, rest = uri.partition("://")
    parts = rest.strip("/").split("/")
    if separator and not any(part in ("", ".", "..") for part in parts):
        if scheme == "file" and rest.startswith("/"):
            from holdfast_train.storage.folder import FolderStorage  # noqa: PLC0415

            return FolderStorage("/" + "/".join(parts))
        if scheme == "s3" and not rest.startswith("/"):  # s3:///prefix: the variable for the bucket was empty
            from holdfast_train.storage.s3 import S3Storage  # noqa: PLC0415

            return S3Storage(parts[0], "/".join(parts[1:]), server or S3Server())
    raise StorageInvalidError(
        f"the checkpoint storage {uri!r} is not an address; allowed: s3://bucket/prefix or file:///absolute/folder"
    )
