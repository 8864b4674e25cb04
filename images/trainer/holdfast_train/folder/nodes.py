"""`Nodes`: the folders of all nodes, as the writer of node 0 looks at them, takes them and notes their commit.

A node that shares the volume of another one has no folder of its own: nothing is asked of it but how its program ended.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from holdfast_train.errors import HoldfastTrainError, StorageError
from holdfast_train.folder.capture import Share
from holdfast_train.folder.commit import FolderCommit
from holdfast_train.folder.link import Message, Server
from holdfast_train.folder.messages import share_in
from holdfast_train.folder.node import NodeFolder
from holdfast_train.folder.put_back import PutBack
from holdfast_train.folder.same_save import Seen
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.folder.verdict import Ended
from holdfast_train.format.codec import decoded
from holdfast_train.format.names import CheckpointName

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """One look at all nodes. `ended`: by rank. `is_told_to_leave`: a node got the signal to end."""

    seen: Sequence[Seen]
    ended: Mapping[int, Ended]
    is_told_to_leave: bool


class Nodes:
    """The folder `own` of node 0, and those of the nodes that `server` has, None with one node."""

    def __init__(self, own: NodeFolder, server: Server | None) -> None:
        self._own = own
        self._server = server
        self._count = 1 if server is None else server.nodes
        self._newest = ""  # what the programs start with,
        self._waiting: set[int] = set()  # and the nodes that do not know yet that theirs may start
        self.pause = 0.0
        """Until the next look, in seconds, for the other nodes: a look at a large folder takes long."""
        self.shared: frozenset[int] = frozenset()
        """The nodes that share the volume of another one."""

    @property
    def others(self) -> list[int]:
        """The other nodes that have folders of their own."""
        return [rank for rank in range(1, self._count) if rank not in self.shared]

    @property
    def having(self) -> list[int]:
        """All nodes that have folders of their own."""
        return [0, *self.others]

    def meet(self) -> None:
        """Find the nodes that share the volume of another one: they see its marker. StorageErrors."""
        if self._server is None:
            return
        ranks = range(1, self._count)
        marked = self._ask({"do": "mark"}, ranks)
        self._own.marker.touch()
        markers = {0: self._own.marker.name, **{rank: one["marker"] for rank, one in marked.items()}}
        told = self._ask({"do": "sees", "markers": markers}, ranks)
        self.shared = frozenset(rank for rank, one in told.items() if one["rank"] != rank)
        self._own.marker.unlink(missing_ok=True)
        self._ask({"do": "unmark"}, ranks)

    def put_back(self, uri: str, own: Callable[[], PutBack]) -> PutBack:
        """Put the checkpoint at `uri` back on all nodes. CheckpointCorruptError and others if one of them cannot."""
        return self._both({"do": "begin", "uri": uri, "nodes": self.having}, own)[1]

    def go(self, newest: str) -> None:
        """The programs may start. `newest`: the path of the newest save in the folder of node 0, empty without one."""
        self._newest, self._waiting = newest, set(range(1, self._count))
        self._go()

    def _go(self) -> None:
        for rank in sorted(self._waiting):
            self._waiting -= self.tell({"do": "go", "newest": self._newest if rank in self.shared else None}, [rank])

    def look(self) -> View:
        """What each node has seen just now; the own folder was looked at. NodeAwayError, and errors of the nodes."""
        if self._server is None:
            return View([self._own.state(is_alone=True)], {}, is_told_to_leave=False)
        self._go()  # one may have been away
        told = self._ask({"do": "look", "shared": sorted(self.shared)}, range(1, self._count))
        self.pause = max(float(one["pause"]) for one in told.values())
        ended = {rank: decoded(Ended, one["ended"]) for rank, one in told.items() if one["ended"] is not None}
        is_told = any(one["isTold"] for one in told.values())
        seen = [self._own.state(is_alone=not self.others), *self._seen(told)]
        return View(self._with_elsewhere(seen), ended, is_told)

    def _with_elsewhere(self, seen: list[Seen]) -> list[Seen]:
        """What the nodes see when they know which files of their saves are on other nodes."""
        lacks = sorted({path for one in seen for path in one.lacks})
        if not lacks or len(seen) == 1:
            return seen
        there = set(self._own.has(lacks))
        for one in self._ask({"do": "has", "paths": lacks}, self.others).values():
            there.update(map(str, one["paths"]))
        elsewhere = sorted(there)
        told = self._ask({"do": "state", "elsewhere": elsewhere}, self.others)
        return [self._own.state(elsewhere), *self._seen(told)]

    def _seen(self, told: Mapping[int, Message]) -> list[Seen]:
        return [replace(decoded(Seen, told[rank]["seen"]), rank=rank) for rank in self.others]

    def take(self, newest: str, *, clean: bool | None = None) -> list[Share | None] | None:
        """What each node gives to a commit, None for one without a folder of its own. None: nothing is new.

        `newest`: the address of the newest commit, empty without one. `clean`: the programs have ended, the one of
        node 0 with exit code 0; None: they run. ChangedError if this is not the moment, OSError, StorageErrors: then
        `give_up` must follow.
        """
        freeze = self._own.freeze if clean is None else partial(self._own.freeze_last, clean=clean)
        joins = bool(self.others)
        told: Message = {"do": "freeze", "isLast": clean is not None, "newest": newest}
        _, is_frozen = self._both(told, lambda: freeze(joins=joins))
        if not is_frozen:
            return None
        if self.others:  # all have kept what they read: at this moment no folder changes
            self._both({"do": "confirm"}, self._own.confirm)
        given, own = self._both({"do": "take"}, self._own.take)
        shares: list[Share | None] = [None] * self._count
        shares[0] = own
        for rank, one in given.items():
            shares[rank] = share_in(one["share"])
        return shares

    def note_committed(self, made: FolderCommit | None) -> None:
        """What was taken is in the commit `made`, or it is all in the newest commit: None.

        A node that does not hear it learns it when it is asked to freeze.
        """
        told = {"do": "committed", "uri": "" if made is None else made.saved.uri}
        with suppress(HoldfastTrainError, ChangedError):
            self._both(told, lambda: self._own.note_committed(None if made is None else made.known))

    def give_up(self) -> list[CheckpointName]:
        """Nothing is kept any more. The names under which something was uploaded, of the nodes that answer."""
        names = list(self._own.capture.give_up())
        for rank in self.others:
            with suppress(StorageError):
                found = map(CheckpointName.parse, self._ask({"do": "giveUp"}, [rank])[rank]["names"])
                names += [name for name in found if name is not None]
        return names

    def tell(self, message: Message, ranks: Sequence[int] | None = None) -> set[int]:
        """Tell all other nodes, or those of `ranks`, as far as they can be reached. Those that have heard it."""
        heard: set[int] = set()
        for rank in range(1, self._count) if ranks is None else ranks:
            with suppress(HoldfastTrainError, ChangedError):
                self._ask(message, [rank])
                heard.add(rank)
        return heard

    def _ask(self, message: Message, ranks: Sequence[int]) -> dict[int, Message]:
        return self._both(message, lambda: None, ranks)[0]

    def _both(
        self, message: Message, own: Callable[[], T], ranks: Sequence[int] | None = None
    ) -> tuple[dict[int, Message], T]:
        """Ask the other nodes, and do `own` meanwhile. The answers, and its result."""
        asked = self.others if ranks is None else ranks
        if self._server is None or not asked:
            return {}, own()
        return self._server.ask(dict.fromkeys(asked, message), own)
