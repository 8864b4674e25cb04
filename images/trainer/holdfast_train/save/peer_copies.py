"""PeerCopies of the state in memory: each rank notes what its copy contains, and another node may keep one too.

A save copies the state into an arena, which the launcher keeps open. The note beside it makes the copy useful without a
commit: an attempt that starts in the same pods goes on from it (`restore/memory_checkpoints.py`). With
`checkpoint.peers` each rank also sends its copy to a rank of the next node, whose launcher keeps it. So the copies of
all ranks are still there when one node is lost.

A rank sends over TCP: a header, the note and the copy. The other rank answers with one byte when it has checked all
bytes and keeps them, in place of those before. The traffic is not encrypted, like that of gloo and NCCL between the
same pods.
"""

import hmac
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from holdfast_train.errors import CheckpointCorruptError, HoldfastTrainError
from holdfast_train.format.copy_note import CopyNote
from holdfast_train.format.manifest import check_chunks
from holdfast_train.keeper_memory import MOST_NOTE_BYTES, OF_PEER, KeeperMemory, file_numbers
from holdfast_train.memory import fits
from holdfast_train.memory_file import memory_file
from holdfast_train.save.job import Job
from holdfast_train.save.links import CopyLinks
from holdfast_train.say import say

CONNECT_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 30.0  # for the other side to take or to send something
ANSWER_SECONDS: Final = 600.0  # the other side checks all bytes before it answers
HEADER_SECONDS: Final = 2.0
SLICE: Final = 4 << 20  # bytes that are sent together: the other side may take SILENT_SECONDS for each
END_SECONDS: Final = 10.0  # for the last copy to be sent, when the trainer has ended
_HEADER: Final = struct.Struct("!16sIIQ")  # token, rank, bytes of the note, bytes of the copy
_KEPT, _NO_ROOM, _WRONG = b"k", b"m", b"w"
_WORDS: Final = {
    _NO_ROOM: "it has no memory for it; give the trainer more (spec.trainer.resources.memory)",
    _WRONG: "not all bytes are those of its note: the state was copied again meanwhile, or the network damaged some",
}


class PeerCopies:
    """The copies of one rank: in a thread, notes what each contains, and sends it if there is a `sender`.

    `note_of` returns the note of a save when all bytes are copied; a HoldfastTrainError if they will not be. The first
    copy frees those of earlier attempts.
    """

    def __init__(
        self,
        rank: int,
        attempt: int,
        kept: KeeperMemory,
        note_of: Callable[[Job], CopyNote],
        sender: "CopySender | None" = None,
    ) -> None:
        self._rank, self._kept, self._note_of, self._sender = rank, kept, note_of, sender
        self._numbers = file_numbers(attempt)
        self._has_old = True
        self._next: Job | None = None
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="holdfast-copies", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """A save has begun. It takes the place of one that waits: a newer copy is worth more."""
        with self._changed:
            self._next = job
            self._changed.notify_all()

    def end(self) -> None:
        """Return when the last copy is noted and sent, or END_SECONDS later."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._thread.join(END_SECONDS)

    def _work(self) -> None:
        while (job := self._take()) is not None:
            try:
                note = self._note_of(job).encode()
            except HoldfastTrainError:  # the save is given up, and its upload says why
                continue
            self._kept.note(self._rank, self._numbers[job.save.arena], note)
            if self._sender is not None:
                self._sender.send(note, job.arriving.view)
            if self._has_old:
                self._kept.drop(self._rank, but=self._numbers)
                self._has_old = False

    def _take(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or self._is_over)
            job, self._next = self._next, None
            return job


class CopySender:
    """Sends the copies of `rank` to another node. It says when the first one is kept, and when that changes."""

    def __init__(self, rank: int, links: CopyLinks) -> None:
        self._rank, self._links = rank, links
        self._is_kept: bool | None = None

    def send(self, note: bytes, copy: memoryview) -> bool:
        """Send a copy. True if the other node keeps it."""
        header = _HEADER.pack(self._links.to_token, self._rank, len(note), len(copy))
        begun = time.monotonic()
        try:
            with socket.create_connection(self._links.to, CONNECT_SECONDS) as connection:
                connection.settimeout(SILENT_SECONDS)
                connection.sendall(header + note)
                for start in range(0, len(copy), SLICE):
                    connection.sendall(copy[start : start + SLICE])
                connection.settimeout(ANSWER_SECONDS)
                answer = connection.recv(1)
        except OSError as error:
            answer, why = b"", str(error)
        else:
            why = _WORDS.get(answer, "it has closed the connection")
        size, seconds = f"{len(copy) / 2**20:.1f} MiB", time.monotonic() - begun
        is_kept, before = answer == _KEPT, self._is_kept
        self._is_kept = is_kept
        if is_kept and not before:
            say(f"{self._links.to[0]} keeps a copy of the state of rank {self._rank}: {size} in {seconds:.1f} s")
        elif not is_kept and before is not False:
            say(
                f"{self._links.to[0]} does not keep the copy of the state of rank {self._rank} ({size}, after "
                f"{seconds:.1f} s): {why}. Losing this node would cost the steps since the newest commit"
            )
        return is_kept


class CopyReceiver:
    """Keeps the copies that ranks of another node send, one after the other, in a thread, until the process ends."""

    def __init__(self, listener: socket.socket, token: bytes, kept: KeeperMemory) -> None:
        self._listener, self._token, self._kept = listener, token, kept
        threading.Thread(target=self._serve, name="holdfast-peer", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the process ends
                return
            try:
                with connection:
                    self._receive(connection)
            except OSError as error:
                say(f"a copy of another rank's state was not received: {error}")

    def _receive(self, connection: socket.socket) -> None:
        connection.settimeout(HEADER_SECONDS)  # a stranger may connect too
        token, rank, note_size, size = _HEADER.unpack(_read(connection, _HEADER.size))
        if not hmac.compare_digest(token, self._token) or note_size > MOST_NOTE_BYTES:
            return
        connection.settimeout(SILENT_SECONDS)
        note = _read(connection, note_size)
        if not fits(size):
            connection.sendall(_NO_ROOM)
            return
        file = memory_file("holdfast-peer")
        try:
            os.ftruncate(file, max(size, 1))
            with closing(mmap.mmap(file, max(size, 1))) as memory, memoryview(memory) as whole, whole[:size] as view:
                _receive_into(connection, view)
                is_intact = _is_intact(note, view)
            if is_intact:
                self._kept.keep(rank, OF_PEER, file)
                self._kept.note(rank, OF_PEER, note)
            connection.sendall(_KEPT if is_intact else _WRONG)
        finally:
            os.close(file)


def _is_intact(note: bytes, view: memoryview) -> bool:
    """True if a copy has the bytes that its note names."""
    at = 0
    try:
        for part in CopyNote.decode(note).parts:
            check_chunks(part, 0, view[at : at + part.size])
            at += part.size
    except (CheckpointCorruptError, IndexError):
        return False
    return at == len(view)


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    _receive_into(connection, memoryview(found))
    return bytes(found)


def _receive_into(connection: socket.socket, view: memoryview) -> None:
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("the connection has ended")
        view = view[count:]
