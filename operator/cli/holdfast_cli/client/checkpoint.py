"""Checkpoints as a program gets them."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast_cli.checkpoints.list_command import look
from holdfast_cli.checkpoints.manifests import read_manifest
from holdfast_cli.checkpoints.pick import Selected
from holdfast_cli.checkpoints.survey import Row, Standing
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.storage.address import PATIENCE, Found, explained
from holdfast_cli.terminal import formats
from holdfast_train.errors import CheckpointCorruptError, CheckpointVersionError, KeyMissingError
from holdfast_train.storage.base import Storage

THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint that training can resume from, as `Job.checkpoints` gives it."""

    name: str
    """Its name in the storage; `holdfast checkpoints` takes it too."""
    step: int | None
    """The step after which it was saved; None if the name that a program gave it says no step."""
    at: datetime
    """When it was committed, in UTC."""
    size: int
    """Bytes of its data."""
    metrics: Mapping[str, float]
    """What the program had measured at this step, by name."""


def usable(found: Found) -> list[Checkpoint]:
    """The checkpoints that are committed and, as far as a listing shows, intact: newest first. Raises CliError."""
    with explained():
        storage = found.open()
        with storage.within(PATIENCE):
            try:
                _, rows = look(storage)
            except CliError as error:
                if error.exit_code is ExitCode.NOT_FOUND:  # no attempt has begun the log yet
                    return []
                raise
            good = [row for row in rows if row.standing is Standing.OK]
            with ThreadPoolExecutor(THREADS, "holdfast-manifests") as pool:
                return list(pool.map(lambda row: _checkpoint(storage, row), good))


def _checkpoint(storage: Storage, row: Row) -> Checkpoint:
    assert row.at is not None  # a commit has a time
    return Checkpoint(str(row.name), row.name.step or None, row.at, row.size, _metrics(storage, row))


def _metrics(storage: Storage, row: Row) -> dict[str, float]:
    """Of its manifest; none if that cannot be read: `holdfast checkpoints verify` says what is wrong."""
    try:
        found = read_manifest(storage, Selected(row.name, row.commit)).metrics
    except (CheckpointCorruptError, CheckpointVersionError, KeyMissingError):
        return {}
    return {name: value for name, text in found.items() if (value := formats.number(text)) is not None}
