"""`NodeFolder`: the folder of one node, and what is asked of it for a commit of all nodes."""

import os
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from holdfast_train.environment import Environment
from holdfast_train.folder import words
from holdfast_train.folder.capture import Capture, Share
from holdfast_train.folder.index import Index
from holdfast_train.folder.look import File, Look, Rules
from holdfast_train.folder.looking import Looking
from holdfast_train.folder.merge import of_node
from holdfast_train.folder.moment import Due, Moment
from holdfast_train.folder.newest import NewestSave
from holdfast_train.folder.note import Note
from holdfast_train.folder.numbered import step_of
from holdfast_train.folder.put_back import MARKER
from holdfast_train.folder.same_save import Seen
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.say import say
from holdfast_train.storage.base import Storage
from holdfast_train.storage.rate_limit import RateLimit

MOST_SECONDS: Final = 1e9  # JSON has no infinity


class NodeFolder:
    """The folder `root` of the node that `environment` describes. `rate` and `check`: as of a Capture."""

    def __init__(
        self,
        environment: Environment,
        storage: Storage,
        root: Path,
        *,
        rate: RateLimit | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        settings = environment.settings
        self.rank = environment.node_rank
        self.root = root
        self.looking = Looking(root, Rules(root, settings.folder_exclude, os.environ), settings.folder_quiet)
        self.newest = NewestSave(root, settings.folder_pattern)
        self.moment = Moment(root, self._note_changed, quiet=settings.folder_quiet, is_named=self.newest.is_named)
        # A job that was created again, and is not to go on with its checkpoints, does not know the folder.
        is_new = settings.resume != "Auto"
        self.note = Note(root, f"{storage.uri} {environment.identity.job_uid if is_new else ''}".rstrip())
        self.capture = Capture(storage, root, self.newest, environment.identity.attempt, rate=rate, check=check)
        self.marker = root / f"{MARKER}{environment.identity.attempt}-{uuid.uuid4().hex[:12]}"
        """A file that is there while the nodes find out which of them share a volume."""
        self._copies: dict[str, object] = {}  # files of other nodes that were put back: path -> signature
        self._torn: set[str] = set()  # paths of which it was said that they are not whole
        self._last: Look | None = None
        self._frozen: Due | None = None
        self._again: Callable[[], Look] = self.looking.take
        self._given: Share | None = None

    def note_put_back(self, known: Index, files: Mapping[str, File], nodes: Collection[int]) -> None:
        """These `files` of the commit `known` were put back. Copies of those of other `nodes` are not given to commits.

        Otherwise an old copy here would stand against what the other node writes later.
        """
        copies = {path: file for path, file in files.items() if known.is_copy(path, self.rank, nodes)}
        self._copies = {path: file.signature for path, file in copies.items()}
        self.note.note_copies(copies)
        self.capture.before = self._without_copies(self.capture.before)

    def _without_copies(self, known: Index | None) -> Index | None:
        return known and replace(known, files={p: s for p, s in known.files.items() if p not in self._copies})

    def _own(self, files: Mapping[str, File]) -> dict[str, File]:
        """Those of `files` that are no copies of other nodes' files. A copy that has changed is none any more."""
        return {path: file for path, file in files.items() if self._copies.get(path) != file.signature}

    def take_over(self, known: Index | None) -> None:
        """Go on beside a program that runs, with the newest commit `known`. OSError, TooMuchError."""
        view = None if known is None else known.view(self.rank)
        self._copies = dict(self.note.copies)
        self.capture.begin(self._without_copies(view), {})
        self.newest.begin(view, {}, self.note.old or {}, has_begun=True)
        files = self.looking.take().files
        saved = {} if view is None else view.files
        there = {p: file for p, file in files.items() if p in saved and saved[p].file.signature == file.signature}
        self.moment.begin(files, there, beside_program=True)

    def _note_changed(self, path: str) -> None:
        self.newest.note_changed(path, self.moment.files[path].mtime_ns / 1e9)

    def look(self, told: int | None = None, told_at: float = 0.0) -> None:
        """Look at the folder. `told`: the step that the program told last, and when. OSError, TooMuchError."""
        seen = self._last = self.looking.take()
        if told is not None and told != self.newest.told:
            self.newest.note_told(told, self.moment.files, told_at)  # of the look before the first step
        self.moment.see(seen.files)
        self.note.see(seen.files)

    def state(self, elsewhere: Collection[str] = (), *, is_alone: bool = False) -> Seen:
        """What the last look says. `elsewhere`: paths that are in the folders of other nodes.

        `is_alone`: no other node has a folder, so nothing is looked for that would be compared with it.
        """
        moment = self.moment
        moment.elsewhere = frozenset(elsewhere)
        is_new = moment.due() is not None or bool(moment.waits_for)
        quiet = min(moment.quiet_seconds, MOST_SECONDS)
        seen = Seen(self.rank, is_new, waits_for=moment.waits_for, quiet=quiet, changes=moment.changes)
        if is_alone or not is_new:
            return seen
        files = self._own(moment.files)
        newest = self.newest.path_in(files, moment.torn(files))
        return replace(
            seen,
            has_state=moment.has_new_state,
            newest=newest,
            step=self.newest.stated_step(newest, files) if newest else None,
            number=step_of(newest.rpartition("/")[2]),
            lacks=tuple(sorted(moment.lacks())),
        )

    def has(self, paths: Collection[str]) -> list[str]:
        """Those of `paths` that are there."""
        return [path for path in paths if path in self.moment.files]

    def freeze(self, *, joins: bool = False) -> bool:
        """Keep what is to be committed now. False if there is nothing. ChangedError if this is not the moment."""
        due = self.moment.due(joins=joins)
        if due is None and joins:
            raise ChangedError(str(self.root), f"is not at rest: {self.moment.waits_for or 'files change'}")
        return self._freeze(due)

    def freeze_last(self, *, clean: bool, joins: bool = False) -> bool:
        """As `freeze`, when the program has ended. `clean`: see `Moment.last`."""
        due = self.moment.last(clean=clean, joins=joins)
        if due is None and joins:
            raise ChangedError(str(self.root), "has a file that is not whole in the place of one of the last commit")
        return self._freeze(due)

    def _freeze(self, due: Due | None) -> bool:
        self._frozen = due
        if due is None:
            return False
        if new := {path: why for path, why in due.torn.items() if path not in self._torn}:
            say(f"not whole, and saved as it is: {words.paths(new)}")
            self._torn |= new.keys()
        assert self._last is not None
        if left_out := self._last.files.keys() - due.files.keys():
            say(f"left out: {words.paths(dict.fromkeys(sorted(left_out), 'its save is not whole'))}")
        own = self._own(due.files)
        self._again = partial(self.looking.again, left_out | (due.files.keys() - own.keys()))
        self.capture.freeze(own, self._again, due.moving & own.keys(), is_storm=due.is_storm)
        return True

    def confirm(self) -> None:
        """ChangedError if what is frozen has changed."""
        self.capture.confirm(self._again)

    def take(self) -> Share:
        """Upload what is frozen. Errors: see `Capture.take`."""
        self._given = self.capture.take()
        return self._given

    def note_committed(self, known: Index | None) -> None:
        """What was taken is committed, in `known`. None: the newest commit has it already, or cannot be read."""
        if self._frozen is None:  # another process has taken it, in whose place this one is
            return
        self.moment.note_committed(self._frozen.files)
        if known is not None and (given := self._given) is not None:
            self.capture.note_committed(of_node(known, self.rank, tuple(given.known.files), given.known.empty))

    def learn(self, known: Index) -> None:
        """The newest commit is `known`. This process was not told that, so what it takes may be there already."""
        empty = () if self._last is None else tuple(sorted(self._last.empty))
        self.capture.before = of_node(known, self.rank, tuple(self._own(self.moment.files)), empty)
