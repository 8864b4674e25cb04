"""Before the program starts: the newest good commit is put back, and it is said from what the program may resume."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.environment import Environment
from holdfast_train.folder import words
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.index import Index, read_index, read_small
from holdfast_train.folder.look import LARGE, File
from holdfast_train.folder.looking import Looking
from holdfast_train.folder.moment import Moment
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.note import Note
from holdfast_train.folder.older import to_put_back
from holdfast_train.folder.put_back import PutBack, put_back
from holdfast_train.format.names import resolve
from holdfast_train.restore.candidates import Candidates
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage


@dataclass(frozen=True)
class Resumption:
    """From what the program may resume: `newest`, the path of a save below the folder, empty if none is known.

    `step`: of it, None if nothing says it. `uri`: of the checkpoint, or of the folder if the save there is newer; empty
    if there is nothing. `note`: what was passed over, for people.
    """

    newest: str = ""
    step: int | None = 0
    uri: str = ""
    note: str = ""


class Beginning:
    """Fills the folder, and tells all that watch it what is there: `commits`, `newest`, `moment` and `note`."""

    def __init__(
        self,
        environment: Environment,
        storage: RetryingStorage,
        *,
        looking: Looking,
        commits: FolderCommits,
        newest: NewestSave,
        moment: Moment,
        note: Note,
    ) -> None:
        self._environment = environment
        self._storage = storage
        self._looking = looking
        self._root = looking.root
        self._commits = commits
        self._newest = newest
        self._moment = moment
        self._note = note

    def begin(self, candidates: Candidates) -> Resumption:
        """Put back the first of `candidates` that is whole. StorageErrors, EnvironmentVariableError, OSError."""
        while (found := candidates.newest()) is not None:
            is_own = found.uri.startswith(f"{self._storage.uri}/")
            storage = self._storage if is_own else open_retrying(self._environment, resolve(found.uri)[0])
            is_at = self._note.is_at(found.uri)
            began = time.monotonic()
            try:
                with storage.within(PATIENCE_SECONDS):
                    known = read_index(storage, found)
                    done = put_back(
                        storage,
                        known,
                        self._root,
                        is_at_commit=is_at,
                        wanted=self._wanted(storage, known),
                        before_others=lambda: self._note.note_commits(()),
                    )
            except BROKEN as error:
                candidates.report_broken(found, error)
                continue
            note = candidates.accept(found)
            self._say_put_back(known, done, time.monotonic() - began)
            self._commits.begin(known if is_own else None, done.files, found.uri)
            self._newest.begin(known, done.files, self._note.old or {})
            files = self._looking.take().files
            self._moment.begin(files, done.files if is_own else {})
            self._note.note_commits((found.uri,))
            return self._resumption(files, known, found.uri, note, None if is_at else done.files)
        return self._without_checkpoint()

    def _without_checkpoint(self) -> Resumption:
        files = self._looking.take().files
        if self._note.old is None:
            self._note.note_old(files)
        old = self._note.old
        if old is None:  # very many
            old = {path: file.signature for path, file in files.items()}
        self._newest.begin(None, {}, old)
        self._moment.begin(files, {path: file for path, file in files.items() if old.get(path) == file.signature})
        say(f"no checkpoint to put back into {self._root}; the program starts with what is there")
        return self._resumption(files, None, "", "", None)

    def _wanted(self, storage: RetryingStorage, known: Index) -> Collection[str] | None:
        """The paths to put back; None for all."""
        if self._environment.settings.folder_put_back == "All" or not known.newest:
            return None

        def text_of(path: str) -> str | None:
            if known.files[path].file.size > LARGE:
                return None
            return read_small(storage, known, path).decode("utf-8", "replace")

        return to_put_back([saved.file for saved in known.files.values()], self._newest.save_at(known), text_of)

    def _say_put_back(self, known: Index, done: PutBack, seconds: float) -> None:
        say(
            f"the folder {self._root} is as it was: {words.commit(known)}; {words.mib(done.read)} were read in "
            f"{seconds:.1f} s, {words.mib(done.there)} were there"
        )
        if left := len(known.files) - len(done.files) - len(done.newer):
            say(f"{left} files of older saves are not put back: checkpoint.putBack is Newest")
        if done.replaced:
            say(f"files of the checkpoint are in the place of others: {words.paths(done.replaced)}")
        if done.newer:
            say(f"newer than the checkpoint, and left: {words.paths(dict.fromkeys(done.newer, 'it has other bytes'))}")

    def _resumption(
        self, files: Mapping[str, File], known: Index | None, uri: str, note: str, only: Mapping[str, File] | None
    ) -> Resumption:
        """What is in the folder now. `only`: the checkpoint's files, unless the others are newer than it."""
        torn = self._moment.torn(files)
        path = other = self._newest.path_in(files, torn)
        if only is not None:
            path = self._newest.path_in(only, torn)
        if other != path:
            say(
                f"{other} in {self._root} is not of the checkpoint, and not after it: a program that looks for its "
                f"newest save by itself may resume from it; delete it if that is wrong, such as after a rollback"
            )
        if torn:
            say(f"not whole, and left as it is: {words.paths(torn)}")
        if known is not None and path in (known.newest, ""):
            return Resumption(path, known.step, uri, note)
        if not path:
            return Resumption()
        say(f"{path} in {self._root} is newer than the checkpoint: the program may resume from it")
        return Resumption(path, self._newest.step_at(path, files), f"file://{self._root}", note)
