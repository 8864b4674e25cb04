"""The writer of node 0, which is the only one of most trainings: it puts back, watches and commits.

With several nodes it decides, and those of the other nodes do what it asks (`follower`).
"""

import queue
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast_protocol import reasons, report
from holdfast_protocol.orders import DRAIN, Order
from holdfast_protocol.report import FOLDER, MAX_LINE, Resumed
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    AlreadyCompleteError,
    EnvironmentVariableError,
    FencedError,
    HoldfastTrainError,
    StorageError,
)
from holdfast_train.folder import words
from holdfast_train.folder.beginning import Beginning, Resumption
from holdfast_train.folder.commit import FolderCommit, FolderCommits
from holdfast_train.folder.index import Index
from holdfast_train.folder.launcher import Launcher
from holdfast_train.folder.link import NodeAwayError, Server
from holdfast_train.folder.look import TooMuchError
from holdfast_train.folder.newest import is_in
from holdfast_train.folder.node_writer import NodeWriter
from holdfast_train.folder.nodes import Nodes, View
from holdfast_train.folder.put_back import make_folder, tidy
from holdfast_train.folder.reported import Reported
from holdfast_train.folder.same_save import SameSave
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.folder.verdict import Ended, FolderVerdict
from holdfast_train.format.program import of_code
from holdfast_train.pod.reporter import Reporter
from holdfast_train.progress import Progress, Silence
from holdfast_train.restore.candidates import Candidates, start
from holdfast_train.save.schedule import one_line
from holdfast_train.say import say
from holdfast_train.storage.retrying import PATIENCE_SECONDS

RETRY_SECONDS: Final = 15.0  # after a commit that failed
WAITING_SECONDS: Final = 60.0  # after which it is said why nothing is committed
ENDING_SECONDS: Final = 0.5  # between two looks whether the programs of all nodes have ended
FAILED_SECONDS: Final = 30.0  # after which the failure of a program counts, although those of other nodes run
FAREWELL_SECONDS: Final = 2.0  # for the last report
HAND_OVER_SECONDS: Final = 3.0  # at most, and inside what is left of the grace


class LeadWriter(NodeWriter):
    """The writer of node 0."""

    def __init__(self, environment: Environment, root: Path, launcher: Launcher) -> None:
        super().__init__(environment, root, launcher)
        self._progress = Progress()
        self._progress.sender = FOLDER
        self._reported = Reported(environment.verdict_folder, self._storage, environment.identity)
        self._reporter: Reporter | None = None
        self._checkpoints: Checkpoints | None = None
        self._commits: FolderCommits | None = None
        self._server: Server | None = None
        self._nodes = Nodes(self._folder, None)
        self._same_save = SameSave(environment.settings.folder_quiet)
        self._has_met = False
        self._has_to_leave = False  # so have the programs of all nodes
        self._told_to_leave: set[int] = set()  # the nodes whose programs know it, or have ended
        self._failed_at: dict[int, float] = {}  # by node: when it was seen that its program had failed by itself
        self._retry_at = 0.0
        self._waiting_since: float | None = None
        self._has_committed = False  # in this attempt
        self._has_saved = False  # a save of the program
        self._committed_at = ""  # when the newest save was committed
        self._saved_step: int | None = None
        self._saved_at = 0.0  # when the program wrote the newest save that is committed, in seconds since 1970
        self._newest_known: Index | None = None  # what the newest commit has

    def _hurry(self) -> None:
        super()._hurry()
        self._reported.hurry()

    # Before the program starts.

    def prepare(self, *, beside_program: bool = False) -> str:
        """Raise the fence, and put the newest good checkpoint back. The path of the newest save that is there.

        `beside_program`: the program runs already, so its folder stays as it is. HoldfastTrainError says what is wrong.
        """
        try:
            return self._take_over() if beside_program else self._begin()
        except (OSError, TooMuchError) as error:
            raise EnvironmentVariableError(f"checkpoint.folder: {self._root} cannot be read: {error}") from error

    def _begin(self) -> str:
        make_folder(self._root)
        self._folder.note.read()
        self._report()  # now: the storage may be silent
        checkpoints = self._start()
        while True:
            try:
                self._meet()
                found = self._put_back(checkpoints)
                break
            except NodeAwayError as error:  # if it is lost, the operator ends this attempt
                say(f"{error}; waits until it is there again")
        assert self._commits is not None
        self._commits.begin(found.commit)
        self._newest_known = self._folder.capture.before
        self._know_writers(found.known)
        self._reported.resumed = found.step
        if found.uri:
            self._progress.resumed_from = Resumed(found.step or 0, found.uri, found.note)  # 0: nothing says the step
        self._poke()
        newest = str(self._root / found.newest) if found.newest else ""
        self._nodes.go(newest)
        return newest

    def _meet(self) -> None:
        """Wait for the writers of the other nodes, and learn which share the volume of another one."""
        if self._server is None:
            return
        if missing := self._server.missing:
            say(f"waits for the processes that save the folders of the other nodes: {', '.join(map(str, missing))}")
        self._server.wait_for_all()
        if self._has_met:
            return
        self._nodes.meet()
        self._has_met = True
        if self._nodes.shared:
            say(f"the nodes {', '.join(map(str, sorted(self._nodes.shared)))} share the volume of another one")

    def _put_back(self, checkpoints: Checkpoints) -> Resumption:
        beginning = Beginning(
            self._environment,
            self._storage,
            self._folder,
            together=self._nodes.put_back,
            nodes=self._nodes.having,
        )
        return beginning.begin(Candidates(self._environment, self._storage, checkpoints))

    def _take_over(self) -> str:
        """Go on in the place of a writer that has ended: what it has committed is not committed again."""
        tidy(self._root)
        self._folder.note.read()
        checkpoints = self._start()
        self._reported.resumed = None
        known, uri = self._newest_commit(checkpoints.newest)
        assert self._commits is not None
        self._commits.begin(uri)
        self._newest_known = known
        self._know_writers(known)
        self._folder.take_over(known)
        attempt = self._environment.identity.attempt
        mine = [commit.step for commit in checkpoints.log.state.commits if commit.attempt == attempt]
        self._has_saved = bool(mine)
        self._saved_step = mine[-1] or None if mine else None  # 0 in the log: nothing says the step
        self._report()
        return ""

    def _know_writers(self, known: Index | None) -> None:
        if known is not None and known.nodes == self._environment.nodes:
            self._same_save.begin(known.writers)

    def _start(self) -> Checkpoints:
        if only := self._environment.settings.resume_only:
            raise EnvironmentVariableError(
                f"checkpoint.resume.only is {', '.join(only)}, with checkpoint.folder, whose "
                f"files have no objects of a Run; set checkpoint.resume to the address alone"
            )
        checkpoints = self._checkpoints = start(self._environment, self._storage)
        self._commits = FolderCommits(
            checkpoints,
            self._storage,
            rate=self._rate,
            note=self._folder.note,
            reported=self._reported,
            code=of_code(self._environment.settings),
        )
        if self._environment.nodes > 1:
            with self._storage.within(PATIENCE_SECONDS):
                self._server = Server(self._environment, self._storage, lambda: self._launcher.seconds_left)
            self._nodes = Nodes(self._folder, self._server)
        return checkpoints

    def _report(self) -> None:
        if self._environment.settings.operator_url is not None:
            self._reporter = Reporter(self._environment, self._progress, self._on_order)
            self._reporter.start()

    # Beside the program.

    def run(self) -> int:
        """Watch until the program has ended. The exit code."""
        self._progress.state = "training"
        while True:
            try:
                pause = max(self._folder.looking.pause, self._nodes.pause)
                command = self._launcher.inbox.get(timeout=pause)
            except queue.Empty:
                self._look()
                continue
            if command is None:
                return 1
            if command["do"] == "leave":
                self._has_to_leave = True
                self._told_to_leave.add(0)
                self._look()
                continue
            self._finish(Ended(command["code"], command["signalledAt"]))
            self._launcher.tell("done")
            return 0

    def _look(self) -> View | None:
        """Commit the folders, if something in them is new and it is the moment."""
        view = self._view()
        if self._has_to_leave or (view is not None and view.is_told_to_leave):
            self._leave_all()
        if view is None:
            return None
        self._let_failed_go(view.ended)
        why = ""
        if any(one.is_new for one in view.seen):
            why = self._same_save.why_wait(view.seen) if self._nodes.others else view.seen[0].waits_for
            if not why and time.monotonic() >= self._retry_at:
                self._try(view)
        self._say_why_not(why)
        return view

    def _let_failed_go(self, ended: Mapping[int, Ended]) -> bool:
        """Let the failure of a program be told, although those of other nodes run, maybe for ever. True if one is."""
        now = time.monotonic()
        self._failed_at = {rank: now for rank, one in ended.items() if one.has_failed} | self._failed_at
        gone = [rank for rank, at in self._failed_at.items() if now - at >= FAILED_SECONDS]
        self._nodes.tell({"do": "end", "verdict": None}, [rank for rank in gone if rank])
        return bool(gone)

    def _view(self) -> View | None:
        """One look at all nodes; None if it failed."""
        self._reported.collect()
        try:
            self._folder.look(self._reported.told, self._reported.told_at)
        except (OSError, TooMuchError) as error:
            self._failed(f"checkpoint.folder: nothing is saved: {error}; see checkpoint.exclude; looking again")
            return None
        try:
            if self._server is not None and not self._has_met:  # this process has taken the place of another one
                self._nodes.meet()
                self._has_met = True
            view = self._nodes.look()
        except (StorageError, EnvironmentVariableError, OSError) as error:  # the last one: of the own marker
            self._failed(f"the folders are not saved now: {error}")
            return None
        self._same_save.see(view.seen, self._reported.told)
        return view

    def _say_why_not(self, why: str) -> None:
        if not why:
            self._waiting_since = None
            return
        now = time.monotonic()
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if now - self._waiting_since >= WAITING_SECONDS:
            self._failed(f"the folder is not saved for {WAITING_SECONDS:.0f} s: {why}")

    def _try(self, view: View, *, clean: bool | None = None) -> bool:
        """Commit. False if a later look has to try again. `clean`: see `Nodes.take`."""
        assert self._commits is not None
        try:
            self._commits.prepare()
            shares = self._nodes.take(self._commits.newest, clean=clean)
            if shares is None:
                return True
            made = self._commits.commit(shares, self._same_save.writers_with(view.seen))
        except (FencedError, AlreadyCompleteError):
            raise
        except ChangedError as error:
            self._commits.give_up(self._nodes.give_up())
            say(f"the folder is not saved yet: {error}")
            return False
        except (StorageError, EnvironmentVariableError, TooMuchError, OSError) as error:  # the second: of another node
            self._commits.give_up(self._nodes.give_up())
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._failed(f"the folder is not saved: {error}; the next try is in {RETRY_SECONDS:.0f} s")
            return False
        self._nodes.note_committed(made)
        self._same_save.note_committed(view.seen)
        if made is not None:
            self._take(made)
        elif self._progress.save_error is not None:
            self._progress.save_error = None
            self._poke()
        return True

    def _failed(self, why: str) -> None:
        if self._progress.save_error != why[:MAX_LINE]:  # an outage of hours needs one line
            say(why)
        self._progress.save_error = why[:MAX_LINE]
        self._poke()

    def _take(self, made: FolderCommit) -> None:
        saved, known = made.saved, made.known
        self._newest_known = known
        self._has_committed, self._saved_step, self._has_saved = True, known.step, True
        of_newest = (s.file.mtime_ns for p, s in known.files.items() if known.newest and is_in(p, known.newest))
        self._saved_at = max(of_newest, default=0) / 1e9
        self._progress.save_error = None
        if not (known.is_beside and self._committed_at):  # logs alone are no newer save
            self._committed_at = saved.committed_at
            new, old = words.mib(saved.uploaded), words.mib(saved.reused)
            say(f"the folder is saved: {words.commit(known)}; {new} uploaded, {old} were there, {saved.seconds:.1f} s")
        if unread := self._folder.capture.unread:
            why = dict.fromkeys(sorted(unread), "it changed each time that it was read")
            self._failed(f"not saved as it is now: {words.paths(why)}")
        took = f"{saved.seconds:.3f}"
        self._progress.checkpoint = report.Saved(saved.uri, saved.size, took, self._committed_at, known.step)
        FolderVerdict("running", saved_step=self._saved_step).write(self._environment)
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
            self._launcher.tell("leave")
            self._launcher.inbox.put({"do": "leave"})

    # After the program.

    def _finish(self, ended: Ended) -> None:
        """Commit what is complete, and write how it ended."""
        assert self._checkpoints is not None
        self._told_to_leave.add(0)
        left = self._launcher.seconds_left
        with self._storage.within(min(PATIENCE_SECONDS, max(left, 0.0)), at_most=left):
            all_ended = self._wait_for_all(ended)
            is_all = all_ended is not None and self._commit_rest(all_ended)
        verdict = self._verdict(ended, all_ended, is_all=is_all)
        told = verdict or FolderVerdict(
            "failed", words.other_failed(0, ended.code), reasons.USER_EXCEPTION, saved_step=self._saved_step
        )
        if verdict is not None:
            verdict.write(self._environment)
        self._nodes.tell({"do": "end", "verdict": told})
        self._reported.end(self._launcher.seconds_left)
        if self._reporter is not None:
            self._reporter.finish(FAREWELL_SECONDS)

    def _wait_for_all(self, own: Ended) -> dict[int, Ended] | None:
        """How the program of each node has ended. None if one has not, and the time is over."""
        if self._server is None:
            return {0: own}
        self._has_to_leave = self._has_to_leave or own.signalled_at is not None
        while (view := self._look()) is None or len(view.ended) < self._environment.nodes - 1:
            ended = {0: own, **({} if view is None else view.ended)}
            if self._let_failed_go(ended) or self._launcher.seconds_left < ENDING_SECONDS:
                return None
            time.sleep(ENDING_SECONDS)
        return {0: own, **view.ended}

    def _leave_all(self) -> None:
        """Let the programs of all nodes know that they have to leave, each once: a node may be away for a while."""
        self._has_to_leave = True
        why = "a node has to leave"
        lacks = [rank for rank in range(1, self._environment.nodes) if rank not in self._told_to_leave]
        self._told_to_leave |= self._nodes.tell({"do": "leave", "why": why}, lacks)
        if 0 not in self._told_to_leave:
            self._told_to_leave.add(0)
            say(f"{why}: the program gets SIGTERM")
            self._launcher.tell("leave")

    def _verdict(self, own: Ended, all_ended: Mapping[int, Ended] | None, *, is_all: bool) -> FolderVerdict | None:
        """How it ended. None if the launcher knows it: a program has failed by itself."""
        every = {0: own} if all_ended is None else all_ended
        signalled_at = min((one.signalled_at for one in every.values() if one.signalled_at is not None), default=None)
        if signalled_at is not None:
            return self._leave(signalled_at)
        if own.code != 0:
            return None
        if all_ended is None:
            return FolderVerdict("failed", words.OTHERS_RUN, reasons.USER_EXCEPTION, saved_step=self._saved_step)
        if failed := next((rank for rank, one in every.items() if one.code != 0), None):
            why = words.other_failed(failed, every[failed].code)
            return FolderVerdict("failed", why, reasons.USER_EXCEPTION, saved_step=self._saved_step)
        if not is_all:
            why = f"the last checkpoint is not saved: {self._progress.save_error}"
            return FolderVerdict("failed", why, reasons.STORAGE_FAILED, saved_step=self._saved_step)
        return self._complete()

    def _complete(self) -> FolderVerdict:
        assert self._checkpoints is not None
        with self._storage.within(PATIENCE_SECONDS):
            self._checkpoints.complete(self._saved_step or self._last_step())
        self._progress.state = "completed"
        if self._newest_known is not None and self._newest_known.has_save:
            have = words.newest(self._saved_step, is_there=self._has_saved)
            message = f"the program ended with exit code 0; {have}"
            return FolderVerdict("completed", message, reasons.COMPLETED, self._saved_step, self._saved_step)
        return FolderVerdict("completed", words.nothing_saved(self._root), reasons.NOTHING_SAVED)

    def _last_step(self) -> int:
        assert self._checkpoints is not None
        return max((commit.step for commit in self._checkpoints.log.state.commits[-1:]), default=0)

    def _commit_rest(self, ended: Mapping[int, Ended]) -> bool:
        """Commit what is left, in at most three tries. True if nothing is left."""
        has_ended = all(one.code == 0 for one in ended.values())
        for _ in range(3):  # the storage may fail for a while, and a process that outlives the program may still write
            if (view := self._view()) is None:
                continue
            if self._nodes.others and (why := self._same_save.why_wait(view.seen, has_ended=has_ended)):
                self._failed(f"the last files are not saved: {why}")
                return False
            if self._try(view, clean=ended[0].code == 0):
                return True
        return False

    def _leave(self, signalled_at: float) -> FolderVerdict:
        """Hand over. A program that saves on the signal loses no step, others may lose some."""
        assert self._checkpoints is not None
        self._progress.state = "left"
        if self._has_committed and self._saved_at >= signalled_at:
            said = words.saved_on_notice(self._saved_step)
            verdict = FolderVerdict("saved", said, step=self._saved_step, saved_step=self._saved_step)
        else:
            said = words.left(self._saved_step, is_there=self._has_saved)
            verdict = FolderVerdict("left", said, saved_step=self._saved_step)
        verdict.write(self._environment)  # before a storage that is slow
        left = min(HAND_OVER_SECONDS, max(0.0, self._launcher.seconds_left))
        try:
            with self._storage.within(left, at_most=left):
                self._checkpoints.hand_over()
        except StorageError as error:
            say(f"the handover is not recorded ({error}); the next attempt raises its fence without it")
        return verdict

    def refuse(self, error: HoldfastTrainError) -> int:
        """Write the verdict of `error`. The exit code."""
        verdict = self._refuse(error, self._saved_step)
        self._nodes.tell({"do": "refuse", "verdict": verdict, "code": error.exit_code})
        self._progress.state = "completed" if isinstance(error, AlreadyCompleteError) else "left"
        if self._reporter is not None:
            self._reporter.finish(FAREWELL_SECONDS)
        return error.exit_code
