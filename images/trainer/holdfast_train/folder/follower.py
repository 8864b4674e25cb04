"""The writer of a node other than node 0: it does what the writer of node 0 asks, and answers."""

import queue
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast_train.commitlog import records
from holdfast_train.commitlog.checkpoints import Found, find
from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    CheckpointCorruptError,
    EnvironmentVariableError,
    HoldfastTrainError,
    NoCheckpointError,
)
from holdfast_train.folder.beginning import Beginning
from holdfast_train.folder.index import Index, read_index
from holdfast_train.folder.launcher import Launcher
from holdfast_train.folder.link import Connection, Message, answer_of, connect
from holdfast_train.folder.look import TooMuchError
from holdfast_train.folder.messages import of_share
from holdfast_train.folder.node_writer import NodeWriter
from holdfast_train.folder.put_back import make_folder, tidy
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.folder.verdict import Ended, FolderVerdict
from holdfast_train.format.codec import decoded
from holdfast_train.format.names import resolve
from holdfast_train.restore.source import CheckpointSource, source_of
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS


class Follower(NodeWriter):
    """The writer of one node. It has no fence, and writes nothing but data that node 0 may commit."""

    def __init__(self, environment: Environment, root: Path, launcher: Launcher) -> None:
        super().__init__(environment, root, launcher)
        self._link: Connection | None = None
        self._newest: str | None = None  # the newest save in the folder, once the program may start
        self._own_newest = ""
        self._has_to_tidy = False
        self._known_uri = ""  # the address of the newest commit, as far as this process knows it
        self._ended: Ended | None = None
        self._is_told = False
        self._end: Message | None = None
        self._steps: dict[str, Callable[[Message], Message]] = {
            "mark": self._mark,
            "sees": self._sees,
            "unmark": self._unmark,
            "begin": self._begin,
            "go": self._go,
            "look": self._look,
            "has": lambda message: {"paths": self._folder.has(list(map(str, message["paths"])))},
            "state": self._state,
            "freeze": self._freeze,
            "confirm": self._confirm,
            "take": lambda _: {"share": of_share(self._folder.take())},
            "giveUp": lambda _: {"names": self._folder.capture.give_up()},
            "committed": self._committed,
            "leave": self._leave,
            "end": self._note_end,
            "refuse": self._note_end,
        }

    # With the launcher.

    def prepare(self, *, beside_program: bool = False) -> str:
        """Wait until node 0 says that the program may start. The path of the newest save that is there.

        `beside_program`: it runs already, so the folder stays as it is. HoldfastTrainError says what is wrong.
        """
        try:
            if beside_program:
                self._has_to_tidy = True
                self._folder.note.read()
                known, self._known_uri = self._newest_commit(self._newest_found)
                self._folder.take_over(known)
                self._newest = ""
                return ""
            make_folder(self._root)
            self._folder.note.read()
            self._serve(lambda: self._newest is not None or self._end is not None)
        except (OSError, TooMuchError) as error:
            raise EnvironmentVariableError(f"checkpoint.folder: {self._root} cannot be read: {error}") from error
        if self._end is not None:
            raise EnvironmentVariableError("node 0 refuses to start")  # `refuse` says what it said
        return self._newest or ""

    def run(self) -> int:
        """Do what node 0 asks, until the programs of all nodes have ended. The exit code."""
        self._serve(lambda: self._end is not None)
        if self._end is None:
            say("node 0 did not say how the training ended, and the time is over")
            return 1
        if (verdict := self._verdict_in(self._end)) is not None:
            verdict.write(self._environment)
        if self._end["do"] == "refuse":
            self._launcher.tell("fenced")
            return int(self._end["code"])
        self._launcher.tell("done")
        return 0

    def _verdict_in(self, end: Message) -> FolderVerdict | None:
        """What counts here: a program that has failed by itself says why."""
        if end["verdict"] is None:
            return None
        verdict = decoded(FolderVerdict, end["verdict"])
        has_failed = self._ended is not None and self._ended.code != 0
        return None if has_failed and verdict.result in ("failed", "completed") else verdict

    def refuse(self, error: HoldfastTrainError) -> int:
        """Write the verdict of `error`, or that of node 0 if it has refused. The exit code."""
        if self._end is not None and self._end["do"] == "refuse":
            decoded(FolderVerdict, self._end["verdict"]).write(self._environment)
            return int(self._end["code"])
        self._refuse(error)
        return error.exit_code

    # With node 0.

    def _serve(self, is_over: Callable[[], bool]) -> None:
        """Answer node 0 until `is_over`, or until the time to save is over. FencedError, AlreadyCompleteError."""
        while not is_over():
            if self._link is None:
                does_run = self._newest is not None  # the program
                with self._storage.within(0.0 if does_run else PATIENCE_SECONDS):
                    self._link = connect(
                        self._environment,
                        self._storage,
                        lambda: self._launcher.seconds_left < 0,
                        is_patient=does_run,
                    )
                if self._link is None:
                    return
            try:
                message = self._link.receive()
                with self._link.alive():
                    answer = self._answer(message)
                self._link.send(answer)
            except (OSError, ValueError, TypeError) as error:
                if self._end is None:
                    say(f"the process that saves the folder of node 0 has gone ({error})")
                self._link.close()
                self._link = None

    def _answer(self, message: Message) -> Message:
        left = self._launcher.seconds_left
        patience = min(PATIENCE_SECONDS, max(left, 0.0))
        try:
            with self._storage.within(patience, at_most=left):
                return self._steps[message["do"]](message)
        except (HoldfastTrainError, ChangedError, TooMuchError, OSError) as error:
            return answer_of(error)

    # Before the program starts.

    def _mark(self, _message: Message) -> Message:
        self._folder.marker.touch()
        return {"marker": self._folder.marker.name}

    def _unmark(self, _message: Message) -> Message:
        self._folder.marker.unlink(missing_ok=True)
        return {}

    def _sees(self, message: Message) -> Message:
        """The lowest node whose marker is in this folder: it has the same volume."""
        names = {int(rank): Path(str(name)).name for rank, name in message["markers"].items()}
        found = [rank for rank, name in names.items() if (self._root / name).exists()]
        return {"rank": min(found, default=self._environment.node_rank)}

    def _begin(self, message: Message) -> Message:
        nodes = frozenset(map(int, message["nodes"]))
        beginning = Beginning(self._environment, self._storage, self._folder, nodes=nodes)
        try:
            found = beginning.begin(self._source(str(message["uri"])))
        except NoCheckpointError as error:
            raise CheckpointCorruptError(str(error)) from error
        self._own_newest = str(self._root / found.newest) if found.newest else ""
        self._known_uri = found.commit
        return {}

    def _source(self, uri: str) -> CheckpointSource | None:
        """The checkpoint at `uri`, None if that is empty."""
        if not uri:
            return None
        prefix, name = resolve(uri)
        return source_of(open_retrying(self._environment, prefix), name)

    def _go(self, message: Message) -> Message:
        """The program may start. `newest`: of the folder that this node shares, None if it has one of its own."""
        self._newest = self._own_newest if message["newest"] is None else str(message["newest"])
        return {}

    def _newest_found(self) -> Found | None:
        commit = records.newest(CommitLog(self._storage, self._environment.identity).refresh())
        return None if commit is None else find(self._storage, commit.name)

    def _index_at(self, uri: str) -> Index | None:
        source = self._source(uri)
        found = None if source is None else source.newest()
        return None if found is None else read_index(self._storage, found)

    # Beside the program.

    def _look(self, message: Message) -> Message:
        self._read_launcher()
        seen = None
        if self._environment.node_rank not in message["shared"]:
            self._folder.look()
            seen = self._folder.state()
        pause = self._folder.looking.pause
        return {"seen": seen, "ended": self._ended, "isTold": self._is_told, "pause": pause}

    def _state(self, message: Message) -> Message:
        return {"seen": self._folder.state(list(map(str, message["elsewhere"])))}

    def _read_launcher(self) -> None:
        with suppress(queue.Empty):
            while (command := self._launcher.inbox.get_nowait()) is not None:
                self._is_told = self._is_told or command["signalledAt"] is not None
                if command["do"] == "finish":
                    self._ended = Ended(command["code"], command["signalledAt"])

    def _freeze(self, message: Message) -> Message:
        if self._has_to_tidy:  # not before: until now it was not known that no other node has the same folder
            tidy(self._root)
            self._has_to_tidy = False
        if (newest := str(message["newest"])) != self._known_uri and newest.startswith(f"{self._storage.uri}/"):
            if (known := self._index_at(newest)) is not None:
                self._folder.learn(known)
            self._known_uri = newest
        if message["isLast"]:
            clean = self._ended is not None and self._ended.code == 0
            self._folder.freeze_last(clean=clean, joins=True)
        else:
            self._folder.freeze(joins=True)
        return {}

    def _confirm(self, _message: Message) -> Message:
        self._folder.confirm()
        return {}

    def _committed(self, message: Message) -> Message:
        uri = str(message["uri"])
        known = None
        try:
            known = self._index_at(uri)
        finally:
            self._folder.note_committed(known)
        if known is not None:
            self._known_uri = uri
        return {}

    def _leave(self, message: Message) -> Message:
        self._read_launcher()
        if self._ended is None and not self._is_told:
            self._is_told = True
            say(f"{message['why']}: the program gets SIGTERM")
            self._launcher.tell("leave")
        return {}

    def _note_end(self, message: Message) -> Message:
        self._end = message
        return {}
