"""Before the program starts: the newest good commit is put back, and it is said from what the program may resume."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.environment import Environment
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.folder import words
from holdfast_train.folder.index import Index, read_index, read_small
from holdfast_train.folder.look import LARGE, File
from holdfast_train.folder.node import NodeFolder
from holdfast_train.folder.older import to_put_back
from holdfast_train.folder.put_back import PutBack, put_back, set_aside
from holdfast_train.format.names import resolve
from holdfast_train.format.program import Program, compare, of_code
from holdfast_train.restore.source import CheckpointSource
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.retrying import PATIENCE_SECONDS, RetryingStorage


@dataclass(frozen=True)
class Resumption:
    """From what the program may resume: `newest`, the path of a save below the folder, empty if none is known.

    `step`: of it, None if nothing says it. `uri`: of the checkpoint, or of the folder if the save there is newer; empty
    if there is nothing. `note`: what was passed over, for people. `commit`: the address of the checkpoint that was put
    back, and `known` what it has.
    """

    newest: str = ""
    step: int | None = 0
    uri: str = ""
    note: str = ""
    commit: str = ""
    known: Index | None = None


def alone(_uri: str, own: Callable[[], PutBack]) -> PutBack:
    """Put back on this node only."""
    return own()


class Beginning:
    """Fills the folder of one node, and tells all that watch it what is there.

    `together` puts the checkpoint at an address back on the other nodes, and meanwhile on this one; an empty address
    means that there is none. `nodes`: those that have folders of their own. If there are several, nothing may stay here
    that a program wrote after the checkpoint: it is set aside.
    """

    def __init__(
        self,
        environment: Environment,
        storage: RetryingStorage,
        folder: NodeFolder,
        *,
        together: Callable[[str, Callable[[], PutBack]], PutBack] = alone,
        nodes: Collection[int] = (0,),
    ) -> None:
        self._environment = environment
        self._storage = storage
        self._folder = folder
        self._looking = folder.looking
        self._root = folder.root
        self._newest = folder.newest
        self._moment = folder.moment
        self._note = folder.note
        self._together = together
        self._nodes = nodes
        self._is_exact = len(nodes) > 1

    def begin(self, candidates: CheckpointSource | None) -> Resumption:
        """Put back the first of `candidates` that is whole. StorageErrors, EnvironmentVariableError, OSError."""
        first = self._looking.take().files if self._is_exact and self._note.is_new else {}
        while candidates is not None and (found := candidates.newest()) is not None:
            is_own = found.uri.startswith(f"{self._storage.uri}/")
            storage = self._storage if is_own else open_retrying(self._environment, resolve(found.uri)[0])
            is_at = self._note.is_at(found.uri) and not self._is_exact
            began = time.monotonic()
            try:
                with storage.within(PATIENCE_SECONDS):
                    known = self._view(read_index(storage, found), found.uri)
                    own = partial(
                        put_back,
                        storage,
                        known,
                        self._root,
                        is_at_commit=is_at,
                        wanted=self._wanted(storage, known),
                        before_others=lambda: self._note.note_commits(()),
                    )
                    done = self._together(found.uri, own)
            except BROKEN as error:
                candidates.report_broken(found, error)
                continue
            note = candidates.accept(found)
            self._say_put_back(known, done, time.monotonic() - began)
            self._say_changes(found.manifest.program)
            if self._is_exact and self._note.is_new:
                self._note.note_old({p: file for p, file in first.items() if p not in known.files})
            self._set_aside(known)
            self._folder.capture.begin(known if is_own else None, done.files)
            self._newest.begin(known, done.files, self._note.old or {})
            files = self._looking.take().files
            self._moment.begin(files, done.files if is_own else {})
            self._folder.note_put_back(known, done.files, self._nodes)
            self._note.note_commits((found.uri,))
            resumption = self._resumption(files, known, found.uri, note, None if is_at else done.files)
            return replace(resumption, commit=found.uri, known=known)
        return self._without_checkpoint()

    def _view(self, known: Index, uri: str) -> Index:
        """What this node finds. EnvironmentVariableError if so many nodes cannot go on from `known`."""
        nodes = self._environment.nodes
        if known.is_fixed and known.nodes != nodes:
            raise EnvironmentVariableError(
                f"checkpoint.folder: in the save {known.newest} of {uri} each of {known.nodes} nodes has files of its "
                f"own, so {nodes} cannot go on from it; set trainer.nodes to {known.nodes}"
            )
        return known.view(self._environment.node_rank)

    def _set_aside(self, known: Index | None) -> None:
        """Move what was written after the commit `known` out of sight: the other nodes may not have it.

        Nothing is moved if it is not known what was there before the job.
        """
        if not self._is_exact or (old := self._note.old) is None:
            return
        kept = set() if known is None else {*known.files, *known.texts}
        files = self._looking.take().files
        moved = [path for path, file in files.items() if path not in kept and old.get(path) != file.signature]
        if moved:
            where = set_aside(self._root, moved)
            why = dict.fromkeys(sorted(moved), "it was written after the checkpoint")
            say(f"moved to {where}, because other nodes go on from the checkpoint: {words.paths(why)}")

    def _without_checkpoint(self) -> Resumption:
        self._together("", PutBack)
        if self._note.old is None:
            self._note.note_old(self._looking.take().files)
        self._set_aside(None)
        files = self._looking.take().files
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

    def _say_changes(self, saved: Mapping[str, str]) -> None:
        """`saved`: what the checkpoint says of its program."""
        now = of_code(self._environment.settings)
        for change in compare(Program(words=saved), Program(words=now)):
            say(f"{change.rule}: {change.sentence}")

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
