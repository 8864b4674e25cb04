"""The checkpoints at an address: one checkpoint by its manifest, or the newest intact one of a whole prefix."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar, Unpack

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Found, find
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.environment import Credentials, Identity, read_settings
from holdfast_train.errors import KeyMissingError, NoCheckpointError, StorageError
from holdfast_train.format.names import CheckpointName, resolve
from holdfast_train.say import say
from holdfast_train.storage.base import join_uri
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3_server import S3Options, S3Server, endpoint_of_person

T = TypeVar("T")
NOBODY: Final = Identity("", "", "", 0, "")


class CheckpointSource(Protocol):
    """Checkpoints to choose from."""

    def newest(self) -> Found | None:
        """The newest checkpoint that is not reported as broken and has an intact manifest, None if none exists.

        NoCheckpointError if some exist and all are broken.
        """

    def report_broken(self, found: Found, error: StorageError) -> None:
        """Report `found` as broken."""

    def accept(self, found: Found) -> str:
        """Take `found`, whose needed bytes were read and are intact. Return what was passed over, for people."""


class One:
    """One named checkpoint: no other one takes its place."""

    def __init__(self, storage: RetryingStorage, name: CheckpointName) -> None:
        self._storage = storage
        self._name = name
        self._uri = join_uri(storage.uri, name.manifest_key)
        self._broken: StorageError | None = None

    def newest(self) -> Found:
        """As CheckpointSource."""
        if self._broken is None:
            try:
                return find(self._storage, self._name)
            except BROKEN as error:
                self._broken = error
        raise NoCheckpointError(f"the checkpoint {self._uri} is broken: {self._broken}") from self._broken

    def report_broken(self, found: Found, error: StorageError) -> None:
        """As CheckpointSource."""
        self._broken = error

    def accept(self, found: Found) -> str:
        """As CheckpointSource."""
        return ""


class Prefix:
    """All checkpoints of another job's prefix. A training there may delete old checkpoints while we read them.

    So a missing object does not mean that a checkpoint is broken if the log has new records: then we read the log
    again. NoCheckpointError if the prefix has no checkpoint.
    """

    def __init__(self, storage: RetryingStorage) -> None:
        self._storage = storage
        self._checkpoints = self._now()

    def newest(self) -> Found:
        """As CheckpointSource. NoCheckpointError also if the prefix has no checkpoint any more."""
        while True:
            try:
                found = self._checkpoints.newest()
            except NoCheckpointError:
                if not self._reload_if_changed():
                    raise
                continue
            assert found is not None  # the log has commits
            return found

    def report_broken(self, found: Found, error: StorageError) -> None:
        """As CheckpointSource."""
        if not isinstance(error, KeyMissingError) or not self._reload_if_changed():
            self._checkpoints.report_broken(found, error)

    def accept(self, found: Found) -> str:
        """As CheckpointSource."""
        return self._checkpoints.accept(found)

    def _now(self) -> Checkpoints:
        found = Checkpoints(self._storage, NOBODY, Keep(), say)
        if not found.log.refresh().commits:
            raise NoCheckpointError(f"{self._storage.uri} contains no checkpoint")
        return found

    def _reload_if_changed(self) -> bool:
        """Read the log again. True if it has new records; then the checkpoints are those of its newest state."""
        before, now = self._checkpoints, self._now()
        if now.log.state.seq == before.log.state.seq:
            return False
        self._checkpoints = now
        say(f"the log of {self._storage.uri} has changed during the read; reading the checkpoint that is newest now")
        return True


def source_of(storage: RetryingStorage, name: CheckpointName | None) -> CheckpointSource:
    """The checkpoint `name`, or with None all of the prefix. NoCheckpointError if the prefix has none."""
    return Prefix(storage) if name is None else One(storage, name)


def read_newest_intact(
    storage: RetryingStorage, name: CheckpointName | None, read: Callable[[Found], T]
) -> tuple[Found, T]:
    """The checkpoint `name`, or the newest in which `read` finds nothing broken, and what `read` returns.

    NoCheckpointError if none exists or all are broken.
    """
    result = read_intact(source_of(storage, name), read)
    assert result is not None  # the source has checkpoints
    found, value, note = result
    if note:
        say(note)
    return found, value


def read_intact(choice: CheckpointSource, read: Callable[[Found], T]) -> tuple[Found, T, str] | None:
    """The newest checkpoint of `choice` in which `read` finds nothing broken, what `read` returns, and a note.

    None if no checkpoint exists, NoCheckpointError if all are broken.
    """
    while (found := choice.newest()) is not None:
        try:
            value = read(found)
        except BROKEN as error:
            choice.report_broken(found, error)
        else:
            return found, value, choice.accept(found)
    return None


def address(text: str) -> str:
    """The address that `text` means: an address, or the path of a folder."""
    return text if "://" in text else f"file://{Path(text).expanduser().absolute()}"


def open_address(text: str, **given: Unpack[S3Options]) -> tuple[RetryingStorage, CheckpointName | None]:
    """The storage at the address `text`, and the checkpoint's name if `text` has one. StorageInvalidError.

    Inside a pod of a job whose checkpoints are in S3, the server is reached as the job says. Elsewhere the environment
    says it: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, and what S3Server.of_person names. What is `given` replaces fields.
    """
    prefix, name = resolve(address(text))
    own = read_settings(os.environ)
    if (own.checkpoint_uri or "").startswith("s3://"):
        server = S3Server.of_checkpoints(own, Credentials.read(os.environ))
    else:
        server = S3Server.of_person(given.get("endpoint") or endpoint_of_person())
    return RetryingStorage(open_storage(prefix, server.with_options(**given))), name
