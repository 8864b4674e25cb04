"""The process that copies trainer.data into the pod. The launcher starts it, and waits for its end.

Its last line on standard output says why the data is not there; without such a line all of it is.
"""

import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from typing import Final

from holdfast_protocol.rank_verdict import RankVerdict, to_text
from holdfast_protocol.settings import Data
from holdfast_train.environment import Environment, read_settings
from holdfast_train.errors import DataError, HoldfastTrainError
from holdfast_train.say import say
from holdfast_train.staging.copy import Copy, Counts, check_space, in_words
from holdfast_train.staging.folder import DataFolder
from holdfast_train.staging.report import StagingReporter
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage
from holdfast_train.storage.s3_server import S3Server

OTHERS_MAY_WRITE: Final = 0o002  # umask: of the group, as pods of other users may fill the volume later


def stage(wanted: tuple[Data, ...], environment: Environment | None, patience: float = PATIENCE_SECONDS) -> Counts:
    """Copy all data. HoldfastTrainError says what is wrong, and with which data."""
    counts, begun = Counts(), time.monotonic()
    with ExitStack() as stack:
        copies: list[tuple[Data, Copy]] = []
        for data in wanted:
            try:
                source = open_data(data)
                stack.enter_context(source.within(patience))
                copy = Copy(source, stack.enter_context(DataFolder(data.to, data.mount)), counts)
                copy.plan()
            except HoldfastTrainError as error:
                raise _about(data, error) from error
            copies.append((data, copy))
        check_space([copy for _, copy in copies])
        reporter = StagingReporter(environment, counts) if environment and environment.settings.operator_url else None
        if reporter is not None:
            reporter.start()
        for data, copy in copies:
            say(f"data: {copy.files} files of {data.source} are wanted in {data.to}")
            try:
                copy.run()
            except HoldfastTrainError as error:
                raise _about(data, error) from error
        if reporter is not None:
            reporter.finish()
    seconds = time.monotonic() - begun
    say(f"data: {in_words(counts.total)} are there; {in_words(counts.fetched)} of them were fetched in {seconds:.1f} s")
    return counts


def open_data(data: Data) -> RetryingStorage:
    """The store of the objects, with retries. StorageInvalidError if `source` is not an address."""
    return RetryingStorage(open_storage(data.source, S3Server.of_data(data)))


def _about(data: Data, error: HoldfastTrainError) -> HoldfastTrainError:
    """The same error, with the data that it is about."""
    return type(error)(f"trainer.data (from {data.source} to {data.to}): {error}")


def _end_with_launcher() -> None:
    """Nothing goes on without the launcher: its end closes this process's standard input."""
    while sys.stdin.read(1 << 16):
        continue
    os._exit(1)


def main() -> int:
    """The process. Its environment is that of the pod."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the launcher decides what they mean
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # the launcher has blocked them
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.umask(OTHERS_MAY_WRITE)
    threading.Thread(target=_end_with_launcher, name="holdfast-launcher", daemon=True).start()
    try:
        stage(read_settings(os.environ).data, Environment.read())
    except (HoldfastTrainError, OSError) as caught:
        error = caught if isinstance(caught, HoldfastTrainError) else DataError(f"trainer.data: {caught}")
        say(f"{error.reason}: {error}")
        out.write(f"{to_text(RankVerdict(0, error.outcome, error.reason, str(error), at=time.time()))}\n")
        out.close()
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
