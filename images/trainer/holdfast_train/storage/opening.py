"""Open the storage at an address."""

from holdfast_train.environment import Credentials, Environment
from holdfast_train.errors import StorageInvalidError
from holdfast_train.storage.base import Storage
from holdfast_train.storage.retrying import RetryingStorage

__all__ = ["open_retrying", "open_storage"]


def open_retrying(environment: Environment, uri: str) -> RetryingStorage:
    """The storage at `uri`, with retries and the job's endpoint and keys. StorageInvalidError if `uri` is invalid."""
    region, endpoint = environment.settings.checkpoint_region, environment.settings.checkpoint_endpoint
    return RetryingStorage(open_storage(uri, endpoint=endpoint, region=region, credentials=environment.credentials))


def open_storage(
    uri: str, *, endpoint: str | None = None, region: str | None = None, credentials: Credentials | None = None
) -> Storage:
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

            return S3Storage(
                parts[0],
                "/".join(parts[1:]),
                endpoint=endpoint,
                region=region,
                credentials=credentials or Credentials(),
            )
    raise StorageInvalidError(
        f"the checkpoint storage {uri!r} is not an address; allowed: s3://bucket/prefix or file:///absolute/folder"
    )
