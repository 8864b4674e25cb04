"""Open the storage that an address names."""

from typing import Final

from holdfast_train.environment import Credentials, Environment
from holdfast_train.errors import (
    StorageInvalidError,
)
from holdfast_train.storage.base import Storage
from holdfast_train.storage.retrying import Patient

__all__ = ["START_PATIENCE", "open_patient", "open_storage"]

START_PATIENCE: Final = 60.0  # seconds to try a storage that does not answer


def open_patient(environment: Environment, uri: str) -> Patient:
    """The storage at `uri`, with the job's endpoint and keys. StorageInvalidError if `uri` is not an address."""
    return Patient(
        open_storage(uri, endpoint=environment.endpoint, region=environment.region, credentials=environment.credentials)
    )


def open_storage(
    uri: str, *, endpoint: str | None = None, region: str | None = None, credentials: Credentials | None = None
) -> Storage:
    """The storage at `uri`: `s3://bucket/prefix` or `file:///folder`. StorageInvalidError if it is neither.

    Nothing is contacted yet. boto3 is imported only for S3: it takes longer to import than a small trainer to start.
    """
    scheme, separator, rest = uri.partition("://")
    parts = rest.strip("/").split("/")
    if separator and not any(part in ("", ".", "..") for part in parts):
        if scheme == "file" and rest.startswith("/"):
            from holdfast_train.storage.folder import FolderStorage  # noqa: PLC0415

            return FolderStorage("/" + "/".join(parts))
        if scheme == "s3" and not rest.startswith("/"):  # s3:///prefix: a variable with the bucket was empty
            from holdfast_train.storage.s3 import S3Storage  # noqa: PLC0415

            return S3Storage(
                parts[0],
                "/".join(parts[1:]),
                endpoint=endpoint,
                region=region,
                credentials=credentials or Credentials(),
            )
    raise StorageInvalidError(
        f"the checkpoint storage {uri!r} cannot be read; allowed: s3://bucket/prefix or file:///absolute/folder"
    )
