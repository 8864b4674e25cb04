"""holdfast-init, for the init container: copies the launcher and tests the storage before a GPU waits for it."""

import argparse
import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from holdfast_protocol import variables
from holdfast_protocol.verdict import Verdict
from holdfast_train.code.store import fetch, fetch_dependencies
from holdfast_train.commitlog import rules
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment, Identity, read_settings
from holdfast_train.errors import (
    CheckpointVersionError,
    CodeNotWrittenError,
    EnvironmentVariableError,
    HoldfastTrainError,
    StorageError,
    StorageInvalidError,
    StorageNotAtomicError,
)
from holdfast_train.pod.launcher.verdict_files import LAUNCHER_NAME, write_verdict
from holdfast_train.pod.launcher_file import launcher_file
from holdfast_train.pod.library_copy import copy_library
from holdfast_train.say import say
from holdfast_train.storage.base import Storage
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage

WRITERS: Final = 8
ROUNDS: Final = 3


def copy_launcher(folder: str | Path) -> Path:
    """Copy the launcher to `folder`/holdfast-run, completely or not at all. EnvironmentVariableError if that fails."""
    target = Path(folder) / LAUNCHER_NAME
    temporary = target.with_name(f".{LAUNCHER_NAME}-{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(launcher_file())
        temporary.chmod(0o755)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise EnvironmentVariableError(f"{variables.LAUNCHER_DIR}: cannot write {target}: {error.strerror}") from error
    return target


def probe(storage: Storage, identity: Identity) -> None:
    """Try every operation that training needs. A StorageError says what does not work.

    Of several concurrent create-only writes of one key exactly one must win (some S3 stores let several win). Written
    keys must be readable, listed and deletable. The prefix must not belong to another job.
    """
    key = f"probe/{identity.pod_uid or uuid.uuid4().hex}-{uuid.uuid4().hex[:8]}"
    keys = [f"{key}-{number}" for number in range(ROUNDS)]
    try:
        for name in keys:
            _one_winner(storage, name)
        found = storage.keys(f"{key}-")
        if found != keys:
            raise StorageInvalidError(f"{storage.uri} lists {len(found)} keys after {len(keys)} were written")
    except StorageError:
        with contextlib.suppress(StorageError):  # the first error explains the failure
            storage.delete(keys)
        raise
    storage.delete(keys)
    commits = CommitLog(storage, identity)
    try:
        commits.refresh()
    except CheckpointVersionError as error:  # the trainer's image may have another holdfast-train, which can read it
        say(f"the owner of the prefix is not checked here: {error}")
        return
    rules.ownership_record(commits.state, identity)


def _one_winner(storage: Storage, key: str) -> None:
    bodies = [uuid.uuid4().bytes * 64 for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS, "holdfast-probe") as pool:
        won = list(pool.map(lambda body: storage.put_if_absent(key, body), bodies))
    content = storage.get(key)
    winners = won.count(True)
    # If an answer is lost, the write is repeated and then refused. So the body that is stored may have "lost".
    if winners > 1 or content not in bodies or (winners == 1 and content != bodies[won.index(True)]):
        raise StorageNotAtomicError(
            f"{storage.uri}: {winners} of {WRITERS} concurrent create-only writes (If-None-Match: *) of one key won; "
            f"exactly one must win, or commits would be lost. Use a store with atomic conditional writes"
        )


def run(patience: float) -> None:
    """Copy the launcher and probe the storage that the environment names. HoldfastTrainError says what is wrong."""
    folder = os.environ.get(variables.LAUNCHER_DIR)
    if folder:
        say(f"copied the launcher to {copy_launcher(folder)}")
        settings = read_settings(os.environ)
        if settings.folder or settings.data:
            say(f"copied the library to {copy_library(folder)}")
    environment = Environment.read()
    if environment is None:
        raise EnvironmentVariableError(
            f"{variables.JOB} is not set; holdfast-init runs in the init container of a job's pod"
        )
    if environment.settings.checkpoint_uri is None:
        say("no checkpoint storage is set: nothing to probe")
        return
    storage = open_retrying(environment, environment.settings.checkpoint_uri)
    with storage.within(patience):
        probe(storage, environment.identity)
    say(f"the checkpoint storage {storage.uri} works: one winner of {WRITERS} in {ROUNDS} rounds")
    code, dependencies = environment.settings.code, environment.settings.dependencies
    if code is not None:
        seconds = _put(storage, variables.CODE_DIR, partial(fetch, storage, code), patience)
        say(f"the program's folder {code[:12]} is in place ({seconds:.1f} s)")
    if dependencies is not None:
        fill = partial(fetch_dependencies, storage, dependencies)
        seconds = _put(storage, variables.DEPENDENCIES_DIR, fill, patience)
        say(f"the dependencies {dependencies[:12]} are in place ({seconds:.1f} s)")


def _put(storage: RetryingStorage, variable: str, fill: Callable[[Path], object], patience: float) -> float:
    """Put something into the folder that a variable names. The seconds that it took.

    CodeErrors, StorageErrors; EnvironmentVariableError if the variable is not set.
    """
    place = os.environ.get(variable)
    if not place:
        raise EnvironmentVariableError(f"{variable} is not set, and {variables.SETTINGS} needs it")
    began = time.monotonic()
    try:
        with storage.within(patience):
            fill(Path(place))
    except OSError as error:
        raise CodeNotWrittenError(
            f"{place} cannot be written: {error.strerror or error}; the node needs as much free space as the files have"
        ) from error
    return time.monotonic() - began


def main(argv: Sequence[str] | None = None) -> int:
    """0 if the pod may start. Otherwise a verdict in the termination log, and 75 (unreachable), 76 (fenced) or 78."""
    parser = argparse.ArgumentParser(prog="holdfast-init", description="Copy the launcher and probe the storage.")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_SECONDS, help="seconds to retry a storage that does not answer"
    )
    arguments = parser.parse_args(argv)
    verdict_file = os.environ.get(variables.TERMINATION_LOG)
    try:
        run(arguments.patience)
    except HoldfastTrainError as error:
        say(f"{error.reason}: {error}")
        write_verdict(verdict_file, Verdict(error.outcome, error.reason, str(error), exit_code=error.exit_code))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
