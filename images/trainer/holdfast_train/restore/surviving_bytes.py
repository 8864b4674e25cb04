"""`SurvivingBytes`: bytes of a checkpoint that are still in the memory of the nodes that train.

When the programs of several nodes start again in their pods, the launchers have kept the copies of the state that the
ranks made for their saves (`pod/launcher/keeper.py`). A rank needs its own part again, and parts of others: each rank
had saved a share of what is equal on all. So it reads from the files of its own node, then from the nodes that have
them, and only then from the storage.

This can never be wrong. The manifest that the log names has the checksum of each chunk, and a chunk from memory counts
only if it has that checksum. So a copy of another step, a copy that was cut short by a kill, and bytes that were
damaged on their way are as if they were not there.
"""

import os
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from holdfast_train.environment import Environment
from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.format.manifest import Manifest, Part, check_chunks
from holdfast_train.format.names import CheckpointName
from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.ranks import Ranks
from holdfast_train.restore.memory_checkpoints import MemoryCheckpoints, memory_checkpoints
from holdfast_train.restore.peers import Peer, PeerFile, PeerServer

MOST_VIEWS: Final = 512  # for one call; Linux allows 1,024
_OF_RANK: Final = re.compile(r"data/[^/]+/r(\d+)\.(\d+)")


class File(Protocol):
    """What a rank has copied for a save: its parts, one after the other."""

    def fill(self, offset: int, views: Sequence[memoryview]) -> bool:
        """Fill `views`, one after the other, with the bytes from `offset` on. False if it has not so many."""


class LocalFile:
    """A file in the memory of this node."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fill(self, offset: int, views: Sequence[memoryview]) -> bool:
        """As File."""
        for at in range(0, len(views), MOST_VIEWS):
            some = views[at : at + MOST_VIEWS]
            size = sum(map(len, some))
            try:
                if os.preadv(self._descriptor, some, offset) != size:
                    return False
            except OSError:
                return False
            offset += size
        return True


class SurvivingBytes:
    """The files of all nodes, by the rank that made them; files of this node come first.

    `from_node`, `from_peers` and `from_storage`: bytes that were read here, on other nodes, and not at all.
    """

    def __init__(
        self, local: Mapping[int, Sequence[int]], remote: Mapping[int, Sequence[PeerFile]] | None = None
    ) -> None:
        self._descriptors = [descriptor for files in local.values() for descriptor in files]
        self._files: dict[int, list[File]] = {rank: [LocalFile(one) for one in files] for rank, files in local.items()}
        for rank, files in (remote or {}).items():
            self._files.setdefault(rank, []).extend(files)
        self._kept = KeeperMemory(None)
        self._ranks = tuple(local)
        self.copies: MemoryCheckpoints = ()  # of the whole state; on rank 0
        self._places: Mapping[str, tuple[int, int]] = {}
        self._wrong: set[File] = set()
        self._lock = threading.Lock()
        self._server: PeerServer | None = None
        self._peers: Sequence[Peer] = ()
        self.from_node = self.from_peers = self.from_storage = 0

    @classmethod
    def open(cls, environment: Environment, ranks: Ranks) -> "SurvivingBytes":
        """What the nodes have. All ranks call it together."""
        if environment.nodes == 1 or ranks.size == 1:
            return cls({})
        kept = KeeperMemory(environment.keeper)
        here = kept.list()
        local = here.files
        is_speaker = os.environ.get("LOCAL_RANK", "0") == "0"  # for copies that other nodes have sent to this one
        server = PeerServer.start(environment.pod_ip, local) if local else None
        counts = {rank: len(files) for rank, files in local.items() if is_speaker or rank == ranks.rank}
        offers = ranks.share(ranks.gather(None if server is None else (server.peer, counts)))
        notes = ranks.gather([note for rank in here.notes if rank in counts for note in here.notes[rank]])
        remote, peers = _remote(offers, ranks.rank, local)
        found = cls(local, remote)
        found._server, found._peers = server, peers
        found._kept = kept
        found.copies = memory_checkpoints(note for some in notes for note in some)
        return found

    @property
    def has_files(self) -> bool:
        """True if some node has files."""
        return bool(self._files)

    def expect(self, found: Manifest) -> None:
        """The next reads are of this checkpoint."""
        self._places = places(found) if self._files else {}
        self._wrong = set()

    def read(self, part: Part, first: int, views: Sequence[memoryview]) -> bool:
        """As `chunk_reader.Held`."""
        size = sum(map(len, views))
        rank, offset = self._places.get(part.key, (-1, 0))
        for file in self._files.get(rank, ()):
            if file in self._wrong:
                continue
            if file.fill(offset + first * part.chunk, views) and _is_intact(part, first, views):
                self._count(file, size)
                return True
            self._wrong.add(file)  # it has another checkpoint, or the copy was cut short
        self._count(None, size)
        return False

    def give_up(self) -> None:
        """Let the launchers free the files, and read everything from the storage."""
        self.close()
        for rank in self._ranks:
            self._kept.drop(rank)

    def close(self) -> None:
        """Read and serve nothing more. The launchers keep the files."""
        self._files = {}
        if self._server is not None:
            self._server.close()
            self._server = None
        for peer in self._peers:
            peer.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    @property
    def summary(self) -> str:
        """Where the bytes of this rank came from, for people; empty if all came from the storage."""
        if not self.from_node and not self.from_peers:
            return ""
        mib = [f"{size / 2**20:.1f} MiB" for size in (self.from_node, self.from_peers, self.from_storage)]
        return f"{mib[0]} from the memory of this node, {mib[1]} from other nodes, {mib[2]} from the storage"

    def _count(self, file: File | None, size: int) -> None:
        with self._lock:
            if file is None:
                self.from_storage += size
            elif isinstance(file, PeerFile):
                self.from_peers += size
            else:
                self.from_node += size


def _remote(
    offers: Sequence[tuple[Peer, Mapping[int, int]] | None], rank: int, local: Collection[int]
) -> tuple[dict[int, list[PeerFile]], list[Peer]]:
    """Remote files by the rank that made them, with the address that serves them.

    `offers`: for each rank, its address, and the number of files that it has by the rank that made them. A file is read
    first from the rank that made it, so that the ranks of a node share the work.
    """
    found: dict[int, list[PeerFile]] = {}
    others = [(number, offer) for number, offer in enumerate(offers) if offer is not None and number != rank]
    for is_own in (True, False):
        for number, (peer, counts) in others:
            for of, count in counts.items():
                if of not in local and (of == number) is is_own:
                    found.setdefault(of, []).extend(PeerFile(peer, of, index) for index in range(count))
    return found, [peer for _, (peer, _) in others]


def _is_intact(part: Part, first: int, views: Sequence[memoryview]) -> bool:
    with suppress(CheckpointCorruptError, IndexError):
        check_chunks(part, first, *views)
        return True
    return False


def places(found: Manifest) -> Mapping[str, tuple[int, int]]:
    """By key of a part: the rank that has copied it, and where it lies in that rank's copy.

    A rank numbers the parts of one save in the order of its copy. Frozen parts come first, and have a name of their own
    if this save has written them. Those that an earlier save has written are not in the copy.
    """
    by_rank: dict[int, dict[CheckpointName | None, dict[int, Part]]] = {}
    for part in found.parts:
        if (of := _OF_RANK.fullmatch(part.key)) is not None:
            names = by_rank.setdefault(int(of[1]), {})
            names.setdefault(CheckpointName.of_key(part.key), {})[int(of[2])] = part
    result: dict[str, tuple[int, int]] = {}
    for rank, names in by_rank.items():
        own = names.pop(found.name, {})
        frozen = {number: part for others in names.values() for number, part in others.items()}
        begin = min(own, default=0)
        parts = {number: part for number, part in frozen.items() if number < begin} | own
        offset = 0
        for number in range(len(parts)):
            if number not in parts:
                break
            result[parts[number].key] = rank, offset
            offset += parts[number].size
    return result
