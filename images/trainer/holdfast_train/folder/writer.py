"""The writer process of a pod with `checkpoint.folder`: puts back, watches, commits. The launcher starts it.

It talks with the launcher in lines of JSON. Its output: `ready` when the program may start, `refused` if it must not,
`fenced` if it has to end, `done` after `finish`. Its input: `finish` when the program has ended. When the input ends,
the launcher is gone, and so is the writer. With the argument `again` it takes the place of a writer that has ended.
"""

import json
import math
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Final

from holdfast_protocol import reasons, report, variables
from holdfast_protocol.orders import DRAIN, Order
from holdfast_protocol.report import FOLDER, MAX_LINE, Resumed
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    AlreadyCompleteError,
    EnvironmentVariableError,
    FencedError,
    HoldfastTrainError,
    NoCheckpointError,
    StorageError,
    StorageUnreachableError,
)
from holdfast_train.folder import words
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.index import Index, escapes
from holdfast_train.folder.layouts import Unit, path_of
from holdfast_train.folder.look import TooManyFilesError
from holdfast_train.folder.put_back import make_folder, put_back, read_index, set_aside_incomplete
from holdfast_train.folder.reading import UnitChangedError
from holdfast_train.folder.reported import Reported
from holdfast_train.folder.watch import Watch
from holdfast_train.pod.rank_verdict import write_rank_verdict
from holdfast_train.pod.reporter import Reporter
from holdfast_train.progress import Progress, Silence
from holdfast_train.restore.candidates import Candidates, start
from holdfast_train.save.schedule import one_line
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import PATIENCE_SECONDS

RETRY_SECONDS: Final = 15.0  # after a commit that failed
BURST_BYTES: Final = 8 << 20  # of the rate limit
FAREWELL_SECONDS: Final = 2.0  # for the last report
HAND_OVER_SECONDS: Final = 3.0  # at most, and inside what is left of the grace


class FolderWriter:
    """The writer of one pod. `out` and `inbox`: the lines to the launcher, and its commands."""

    def __init__(self, environment: Environment, root: Path, pattern: str | None, out: IO[str]) -> None:
        if environment.settings.checkpoint_uri is None:
            raise EnvironmentVariableError(
                f"{variables.SETTINGS} has no checkpointUri; checkpoint.folder needs a storage"
            )
        self._environment = environment
        self._root = root
        self._out = out
        self.inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.deadline = math.inf
        self._storage = open_retrying(environment, environment.settings.checkpoint_uri, self._on_silence)
        self._rate = RateLimit(environment.upload_rate, BURST_BYTES)
        self._watch = Watch(root, pattern)
        self._progress = Progress()
        self._progress.sender = FOLDER
        self._reported = Reported(environment.verdict_folder, self._storage, environment.identity)
        self._reporter: Reporter | None = None
        self._checkpoints: Checkpoints | None = None
        self._commits: FolderCommits | None = None
        self._retry_at = 0.0
        self._refused: tuple[Unit, str] | None = None  # a checkpoint that cannot be saved, if no newer one is saved
        self._saved: Saved | None = None  # by this attempt
        self._has_saved = False
        self._saved_step: int | None = None
        self.newest = ""  # the path of the checkpoint that is there before the program starts
        self._saved_at = 0.0  # when the program wrote that checkpoint, in seconds since 1970

    def tell(self, state: str, **more: Any) -> None:
        """Send one line to the launcher."""
        self._out.write(json.dumps({"state": state, **more}) + "\n")
        self._out.flush()

    def finish_by(self, seconds: float | None) -> None:
        """The program has ended, and the writer has `seconds` more. Any thread may call this."""
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._rate.limit = None
        self._reported.hurry()

    # Before the program starts.

    def prepare(self, *, beside_program: bool = False) -> None:
        """Raise the fence, and put the newest good checkpoint back. HoldfastTrainError says what is wrong.

        `beside_program`: the program runs already, so its folder stays as it is.
        """
        try:
            if beside_program:
                self._take_over()
            else:
                self._begin()
        except (OSError, TooManyFilesError) as error:
            raise EnvironmentVariableError(f"checkpoint.folder: {self._root} cannot be read: {error}") from error

    def _begin(self) -> None:
        make_folder(self._root)
        self._report()  # now: the storage may be silent
        checkpoints = self._start()
        if not self._watch.has_pattern:
            for name in set_aside_incomplete(self._root):
                say(f"{name} in {self._root} is not complete; it is renamed: the program must not resume from it")
        self._put_back(Candidates(self._environment, self._storage, checkpoints))
        self._poke()

    def _take_over(self) -> None:
        """Go on in the place of a writer that has ended: what it has committed is not committed again."""
        checkpoints = self._start()
        self._reported.resumed = None
        with self._storage.within(PATIENCE_SECONDS):
            known = self._newest_index(checkpoints)
        assert self._commits is not None
        self._commits.before = known
        self._watch.begin(None if known is None else known.unit, is_running=True)
        attempt = self._environment.identity.attempt
        mine = [commit.step for commit in checkpoints.log.state.commits if commit.attempt == attempt]
        self._has_saved = bool(mine)
        self._saved_step = mine[-1] or None if mine else None  # 0 in the log: the name says no step
        self._report()

    def _newest_index(self, checkpoints: Checkpoints) -> Index | None:
        """What the newest checkpoint consists of; None if there is none, or if it is broken."""
        try:
            found = checkpoints.newest()
            return None if found is None else read_index(self._storage, found)
        except (*BROKEN, NoCheckpointError) as error:
            say(f"the newest checkpoint cannot be compared with {self._root}: {error}")
            return None

    def _start(self) -> Checkpoints:
        if only := self._environment.settings.resume_only:
            raise EnvironmentVariableError(
                f"checkpoint.resume.only is {', '.join(only)}, with checkpoint.folder, whose "
                f"files have no objects of a Run; set checkpoint.resume to the address alone"
            )
        checkpoints = self._checkpoints = start(self._environment, self._storage)
        self._commits = FolderCommits(checkpoints, self._storage, self._root, self._rate, self._check)
        self._commits.reported = self._reported
        return checkpoints

    def _report(self) -> None:
        if self._environment.settings.operator_url is not None:
            self._reporter = Reporter(self._environment, self._progress, self._on_order)
            self._reporter.start()

    def _put_back(self, candidates: Candidates) -> None:
        assert self._commits is not None
        while (found := candidates.newest()) is not None:
            try:
                with self._storage.within(PATIENCE_SECONDS):
                    known = read_index(self._storage, found)
                    is_new = put_back(self._storage, known, self._root)
            except BROKEN as error:
                candidates.report_broken(found, error)
                continue
            note = candidates.accept(found)
            self._commits.before = known if found.uri.startswith(f"{self._storage.uri}/") else None
            newer = self._watch.begin(known.unit)
            what = "is put back" if is_new else "is there already"
            say(f"the checkpoint {known.unit.name or 'files'} {words.of_step(known.unit.step)} {what} in {self._root}")
            if newer is not None:
                say(f"{newer.name or 'a file'} in {self._root} is newer, and complete: the program may resume from it")
            self._resume_at(newer or known.unit, found.uri if newer is None else f"file://{self._root}", note)
            return
        there = self._watch.begin(None)
        say(f"no checkpoint to put back into {self._root}; the program starts with what is there")
        if there is not None:
            self._resume_at(there, f"file://{self._root}", "")

    def _resume_at(self, unit: Unit, uri: str, note: str) -> None:
        self._reported.resumed = unit.step
        self.newest = str(self._root / path_of(unit))
        self._progress.resumed_from = Resumed(unit.step or 0, uri, note)  # 0: its name says none

    # Beside the program.

    def run(self) -> int:
        """Watch until the program has ended. The exit code."""
        self._progress.state = "training"
        pause = self._watch.pause
        while True:
            try:
                command = self.inbox.get(timeout=pause)
            except queue.Empty:
                self._reported.collect()
                self._look(is_last=False)
                pause = self._watch.pause
                continue
            if command is None:
                return 1
            self._finish(command)
            self.tell("done")
            return 0

    def _check(self) -> None:
        if time.monotonic() > self.deadline:
            raise StorageUnreachableError("the time to save before the pod ends is over")

    def _look(self, *, is_last: bool, clean: bool = False) -> bool:
        """Commit the newest complete checkpoint, if it is not committed yet. False if a later look has to try again."""
        before = self._watch.complaint
        unit = self._watch.next_unit(is_last=is_last, clean=clean)
        if self._watch.complaint:
            self._failed(self._watch.complaint)
        elif before and self._progress.save_error == before[:MAX_LINE]:
            self._progress.save_error = None
        if unit is None:
            return not self._watch.complaint
        if not is_last and time.monotonic() < self._retry_at:
            return False
        return self._try(unit)

    def _try(self, unit: Unit) -> bool:
        assert self._commits is not None
        if (bad := escapes(unit)) is not None:
            self._watch.refuse(unit)
            what = "leads out of it" if bad.link is not None else "is neither a file nor a folder that can be read"
            self._refused = unit, f"the checkpoint {unit.name!r} is not saved: {bad.path!r} {what}"
            self._failed(self._refused[1])
            return True
        try:
            saved = self._commits.commit(unit)
        except (FencedError, AlreadyCompleteError):
            raise
        except UnitChangedError as error:
            say(f"the checkpoint {unit.name!r} is not saved yet: {error}")
            return False
        except (StorageError, OSError) as error:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._failed(
                f"the checkpoint {unit.name!r} is not saved: {error}; the next try is in {RETRY_SECONDS:.0f} s"
            )
            return False
        self._take(unit, saved)
        return True

    def _failed(self, why: str) -> None:
        if self._progress.save_error != why[:MAX_LINE]:  # an outage of hours needs one line
            say(why)
        self._progress.save_error = why[:MAX_LINE]
        self._poke()

    def _take(self, unit: Unit, saved: Saved) -> None:
        self._watch.note_committed(unit)
        if self._refused is not None and unit.newest >= self._refused[0].newest:
            self._refused = None
        self._saved, self._saved_step, self._saved_at = saved, unit.step, unit.newest / 1e9
        self._has_saved = True
        self._progress.save_error = None
        step = words.of_step(unit.step)
        what = f"the checkpoint {unit.name} {step} is" if unit.name else f"the checkpoint files {step} are"
        new, old = (f"{size / (1 << 20):.1f} MiB" for size in (saved.uploaded, saved.reused))
        say(f"{what} saved: {new} uploaded, {old} were there, {saved.seconds:.1f} s")
        took = f"{saved.seconds:.3f}"
        self._progress.checkpoint = report.Saved(saved.uri, saved.size, took, saved.committed_at, unit.step)
        self._write_verdict("running", "")
        self._poke()

    def _on_silence(self, silence: Silence | None) -> None:
        told = silence and Silence(silence.since, one_line(silence.why, self._environment.credentials.values))
        self._progress.note_silence("writer", told)
        self._poke()

    def _poke(self) -> None:
        if self._reporter is not None:
            self._reporter.poke()

    def _on_order(self, order: Order) -> None:
        if order.type == DRAIN:  # for a program that knows no orders it is SIGTERM, which the launcher passes on
            say(f"the operator orders to leave ({order.reason}): the program gets SIGTERM")
            os.kill(os.getppid(), signal.SIGTERM)

    # After the program.

    def _finish(self, command: dict[str, Any]) -> None:
        """Commit what is complete, and write how it ended."""
        assert self._checkpoints is not None
        signalled_at, code = command["signalledAt"], command["code"]
        left = self.deadline - time.monotonic()
        with self._storage.within(min(PATIENCE_SECONDS, max(left, 0.0)), at_most=left):
            is_all = self._commit_rest(clean=code == 0)
        if signalled_at is not None:
            self._leave(signalled_at)
        elif code == 0 and self._refused is not None:
            self._write_verdict("failed", self._refused[1], reasons.STORAGE_FAILED)
        elif code == 0 and not is_all:
            self._write_verdict(
                "failed", f"the last checkpoint is not saved: {self._progress.save_error}", reasons.STORAGE_FAILED
            )
        elif code == 0:
            with self._storage.within(PATIENCE_SECONDS):
                self._checkpoints.complete(self._saved_step or self._last_step())
            self._progress.state = "completed"
            have = words.newest(self._saved_step, is_there=self._has_saved)
            message = f"the program ended with exit code 0; {have}"
            if self._checkpoints.log.state.commits:
                self._write_verdict("completed", message, reasons.COMPLETED, step=self._saved_step)
            else:
                self._write_verdict("completed", words.nothing_saved(self._root), reasons.NOTHING_SAVED)
        self._reported.end(self.deadline - time.monotonic())
        if self._reporter is not None:
            self._reporter.finish(FAREWELL_SECONDS)

    def _last_step(self) -> int:
        assert self._checkpoints is not None
        return max((commit.step for commit in self._checkpoints.log.state.commits[-1:]), default=0)

    def _commit_rest(self, *, clean: bool) -> bool:
        """Commit what is left, in at most three tries. True if nothing is left."""
        for _ in range(3):  # the storage may fail for a while, and a process that outlives the program may still write
            if self._watch.next_unit(is_last=True, clean=clean) is None:
                return True
            self._look(is_last=True, clean=clean)
        return self._watch.next_unit(is_last=True, clean=clean) is None

    def _leave(self, signalled_at: float) -> None:
        """Write the verdict and hand over. A program that saves on the signal loses no step, others may lose some."""
        assert self._checkpoints is not None
        self._progress.state = "left"
        if self._saved is not None and self._saved_at >= signalled_at:
            self._write_verdict("saved", words.saved_on_notice(self._saved_step), step=self._saved_step)
        else:
            self._write_verdict("left", words.left(self._saved_step, is_there=self._has_saved))
        left = min(HAND_OVER_SECONDS, max(0.0, self.deadline - time.monotonic()))
        try:
            with self._storage.within(left, at_most=left):
                self._checkpoints.hand_over()
        except StorageError as error:
            say(f"the handover is not recorded ({error}); the next attempt raises its fence without it")

    def _write_verdict(self, result: Any, message: str, reason: str = "", *, step: int | None = None) -> None:
        folder, saved = self._environment.verdict_folder, self._saved_step
        write_rank_verdict(folder, 0, result, reason=reason, message=message, step=step, saved_step=saved)

    def refuse(self, error: HoldfastTrainError) -> int:
        """Write the verdict of `error`. The exit code."""
        say(f"{error.reason}: {error}")
        self._write_verdict(error.outcome, str(error), error.reason)
        self._progress.state = "completed" if isinstance(error, AlreadyCompleteError) else "left"
        if self._reporter is not None:
            self._reporter.finish(FAREWELL_SECONDS)
        return error.exit_code


def _listen(writer: FolderWriter) -> None:
    """Pass the launcher's commands on; None at the end of its input."""
    for line in sys.stdin:
        command = json.loads(line)
        writer.finish_by(command["seconds"])
        writer.inbox.put(command)
    writer.inbox.put(None)
    if math.isinf(writer.deadline):  # the launcher is gone, and the program too: nothing may go on
        os._exit(1)


def main() -> int:
    """The process. Its environment is that of the pod."""
    for number in (signal.SIGTERM, signal.SIGINT):  # they are for the program
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # the launcher has blocked them
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    environment = Environment.read()
    if environment is None or environment.settings.folder is None:
        say(f"{variables.JOB}, and folder in {variables.SETTINGS}, must be set: the launcher starts this process")
        return 78
    writer = FolderWriter(environment, Path(environment.settings.folder), environment.settings.folder_pattern, out)
    threading.Thread(target=_listen, args=(writer,), name="holdfast-launcher", daemon=True).start()
    beside_program = sys.argv[1:] == ["again"]
    try:
        writer.prepare(beside_program=beside_program)
    except HoldfastTrainError as error:
        if beside_program and not isinstance(error, (FencedError, AlreadyCompleteError)):
            say(f"{error.reason}: {error}")
            return error.exit_code  # the launcher tries again
        code = writer.refuse(error)
        writer.tell("fenced" if beside_program else "refused", exitCode=code)
        return code
    writer.tell("ready", newest=writer.newest)
    try:
        return writer.run()
    except HoldfastTrainError as error:
        code = writer.refuse(error)
        writer.tell("fenced")
        return code


if __name__ == "__main__":
    sys.exit(main())
