"""What an address names: one checkpoint by its manifest, or the newest that holds of a whole prefix."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from holdfast_train.commitlog.checkpoints import Checkpoints, Found, find
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.commitlog.records import Keep
from holdfast_train.environment import Credentials, Identity
from holdfast_train.errors import KeyMissingError, NoCheckpointError, StorageError
from holdfast_train.format.names import manifest_key, resolve
from holdfast_train.say import say
from holdfast_train.storage.base import join_uri
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import Patient

__all__ = ["PATIENCE", "Source", "address", "newest_that_holds", "open_address", "read_newest", "source"]

T = TypeVar("T")
PATIENCE: Final = 60.0  # seconds to try a storage that does not answer
NOBODY: Final = Identity("", "", "", 0, "")


class Source(Protocol):
    """Checkpoints to choose from."""

    def newest(self) -> Found | None:
        """The newest that was not passed over and whose manifest holds, None if there is none at all.

        NoCheckpointError if there are some and none holds.
        """

    def pass_over(self, found: Found, error: StorageError) -> None:
        """What was read of `found` does not hold."""

    def accept(self, found: Found) -> str:
        """What is needed of `found` was read, and holds. What was passed over on the way to it, for people."""


class One:
    """A checkpoint that somebody has named: there is none before it."""

    def __init__(self, storage: Patient, name: str) -> None:
        self._storage = storage
        self._name = name
        self._uri = join_uri(storage.uri, manifest_key(name))
        self._broken: StorageError | None = None

    def newest(self) -> Found:
        """As Source."""
        if self._broken is None:
            try:
                return find(self._storage, self._name)
            except BROKEN as error:
                self._broken = error
        raise NoCheckpointError(f"the checkpoint {self._uri} does not hold: {self._broken}") from self._broken

    def pass_over(self, found: Found, error: StorageError) -> None:
        """As Source."""
        self._broken = error

    def accept(self, found: Found) -> str:
        """As Source."""
        return ""


class Prefix:
    """All checkpoints of a prefix that is not ours: whoever trains there deletes old ones, also while they are read.

    So what is missing does not count as broken if the log has gone on since it was read: then we begin again.
    NoCheckpointError if there is none at all.
    """

    def __init__(self, storage: Patient) -> None:
        self._storage = storage
        self._checkpoints = self._now()

    def newest(self) -> Found:
        """As Source. NoCheckpointError too if there is none at all any more."""
        while True:
            try:
                found = self._checkpoints.newest()
            except NoCheckpointError:
                if not self._has_gone_on():
                    raise
                continue
            assert found is not None  # the log has some
            return found

    def pass_over(self, found: Found, error: StorageError) -> None:
        """As Source."""
        if not isinstance(error, KeyMissingError) or not self._has_gone_on():
            self._checkpoints.pass_over(found, error)

    def accept(self, found: Found) -> str:
        """As Source."""
        return self._checkpoints.accept(found)

    def _now(self) -> Checkpoints:
        found = Checkpoints(self._storage, NOBODY, Keep(), say)
        if not found.log.refresh().commits:
            raise NoCheckpointError(f"{self._storage.uri} holds no checkpoint")
        return found

    def _has_gone_on(self) -> bool:
        """Is the log longer than when we read it? Then go by what it says now."""
        before, now = self._checkpoints, self._now()
        if now.log.state.seq == before.log.state.seq:
            return False
        self._checkpoints = now
        say(f"the log of {self._storage.uri} has gone on while it was read; reading what is newest now")
        return True


def source(storage: Patient, name: str | None) -> Source:
    """The checkpoint `name`, or all of the prefix. NoCheckpointError if there is none at all."""
    if name is not None:
        return One(storage, name)
    return Prefix(storage)


def newest_that_holds(storage: Patient, name: str | None, read: Callable[[Found], T]) -> tuple[Found, T]:
    """What `read` makes of the newest checkpoint for which it finds nothing broken. NoCheckpointError if of none."""
    result = read_newest(source(storage, name), read)
    assert result is not None  # the source has some
    found, value, note = result
    if note:
        say(note)
    return found, value


def read_newest(choice: Source, read: Callable[[Found], T]) -> tuple[Found, T, str] | None:
    """The newest checkpoint of `choice` in which `read` finds nothing broken, what `read` returns, and a note.

    None if there is no checkpoint at all, NoCheckpointError if none of them is intact.
    """
    while (found := choice.newest()) is not None:
        try:
            value = read(found)
        except BROKEN as error:
            choice.pass_over(found, error)
        else:
            return found, value, choice.accept(found)
    return None


def address(text: str) -> str:
    """The address in `text`, which may be a path of a folder."""
    return text if "://" in text else f"file://{Path(text).expanduser().absolute()}"


def open_address(
    text: str, *, endpoint: str | None = None, region: str | None = None, credentials: Credentials | None = None
) -> tuple[Patient, str | None]:
    """The storage that `text` names, and the checkpoint in it, if it names one. StorageInvalidError.

    What is not given comes from the job, inside its pod; else from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION,
    and boto3's own chain of credentials.
    """
    prefix, name = resolve(address(text))
    env = os.environ
    storage = open_storage(
        prefix,
        endpoint=endpoint or _first("HOLDFAST_CHECKPOINT_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=region or _first("HOLDFAST_CHECKPOINT_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        credentials=credentials
        or Credentials(
            env.get("HOLDFAST_CHECKPOINT_ACCESS_KEY_ID"),
            env.get("HOLDFAST_CHECKPOINT_SECRET_ACCESS_KEY"),
            env.get("HOLDFAST_CHECKPOINT_SESSION_TOKEN"),
        ),
    )
    return Patient(storage), name


def _first(*names: str) -> str | None:
    """The first of these variables that is set."""
    return next((value for name in names if (value := os.environ.get(name))), None)
