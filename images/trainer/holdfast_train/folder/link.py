"""How the writers of several nodes talk: the one of node 0 asks, and the others answer.

The writer of node 0 listens at the address of its pod, and says where in an object of the storage, `writers/ATTEMPT`,
with a token. So only a process that may read the checkpoints of the job can talk to it, and one that was started again
is found again. A message is a length of four bytes, and JSON. The traffic is not encrypted, like that of gloo and NCCL
between the same pods; the bytes of the folders do not travel on it.
"""

import hmac
import json
import math
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.environment import Environment
from holdfast_train.errors import (
    AlreadyCompleteError,
    CheckpointCorruptError,
    EnvironmentVariableError,
    FencedError,
    HoldfastTrainError,
    KeyMissingError,
    StorageError,
    StorageFullError,
)
from holdfast_train.folder.index import MOST_INDEX
from holdfast_train.folder.snapshot import ChangedError
from holdfast_train.format.codec import encoded
from holdfast_train.format.sealed_json import decoded_json
from holdfast_train.say import say
from holdfast_train.storage.base import Storage

MOST_BYTES: Final = 2 * MOST_INDEX  # of a message: an index, and the list of its parts
HELLO_BYTES: Final = 4096  # of the first one, before it is known who sends it
HELLO_SECONDS: Final = 10.0  # for all of it
ACCEPT_SECONDS: Final = 0.1  # after a connection that could not be taken
LOOK_SECONDS: Final = 1.0  # between two looks whether node 0 says where it listens
CONNECT_SECONDS: Final = 5.0
ALIVE_SECONDS: Final = 10.0  # between two words of a node that works on its answer
SILENT_SECONDS: Final = 60.0  # after which a node that says nothing is away
FOLDER: Final = "writers/"
ALIVE: Final = "alive"  # in a message that comes before the answer
_LENGTH: Final = struct.Struct("!I")
_ALIVE: Final = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

Message = dict[str, Any]
T = TypeVar("T")


class NodeAwayError(StorageError):
    """The writer of another node does not answer, so nothing can be committed now."""

    reason = "FolderWriterAway"


class Connection:
    """One writer, as another one sees it. OSError if it has gone, ValueError and TypeError if it sends no messages."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(None)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _ALIVE:  # a node that has died says nothing
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. Any thread may call this."""
        data = json.dumps(message, separators=(",", ":"), default=encoded).encode("ascii")
        with self._lock:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Inside, the other side hears now and then that this one works on its answer."""
        over = threading.Event()

        def say_so() -> None:
            with suppress(OSError):
                while not over.wait(ALIVE_SECONDS):
                    self.send({ALIVE: True})

        thread = threading.Thread(target=say_so, name="holdfast-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def answer(self, left: Callable[[], float]) -> Message:
        """The answer to what was sent. TimeoutError if there is none `left` seconds from now, or no sign of life."""
        while True:
            self._socket.settimeout(max(0.1, min(SILENT_SECONDS, left())))
            if ALIVE not in (found := self.receive()):
                return found

    def receive(self, most: int = MOST_BYTES, until: float = math.inf) -> Message:
        """The next message, of at most `most` bytes. TimeoutError if it has not come `until` then: time.monotonic()."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, until))
        if length > most:
            raise ValueError(f"a message of {length} bytes; allowed: {most}")
        found = decoded_json(self._read(length, until))
        if not isinstance(found, dict):
            raise TypeError(f"a message is a {type(found).__name__}; allowed: an object")
        return found

    def _read(self, size: int, until: float) -> bytes:
        data = bytearray(size)
        with memoryview(data) as view:
            done = 0
            while done < size:
                if until < math.inf:
                    self._socket.settimeout(max(0.01, until - time.monotonic()))
                count = self._socket.recv_into(view[done:])
                if count == 0:
                    raise ConnectionResetError("it has ended")
                done += count
        return bytes(data)

    def close(self) -> None:
        """End the connection: another thread that reads from it gets OSError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


# --- the side of node 0 -----------------------------------------------------------------------------------------------


class Server:
    """Takes the connections of the nodes 1 to `nodes` - 1. The newest of a node counts.

    `left`: how many seconds an answer may take at most.
    """

    def __init__(
        self, environment: Environment, storage: Storage, left: Callable[[], float] = lambda: math.inf
    ) -> None:
        """OSError if it cannot listen, StorageErrors if it cannot say where."""
        address = environment.pod_ip or ""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._token = secrets.token_hex(16)
        self.nodes = environment.nodes
        self._left = left
        self._links: dict[int, Connection] = {}
        self._changed = threading.Condition()
        self._socket = socket.create_server((address, 0), family=family, backlog=self.nodes)
        threading.Thread(target=self._accept, name="holdfast-writers", daemon=True).start()
        say_where(storage, environment, self._socket.getsockname()[1], self._token)

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
                threading.Thread(target=self._greet, args=(connected,), daemon=True).start()
            except (OSError, RuntimeError):  # it has gone again, or strangers hold all files or threads for a while
                time.sleep(ACCEPT_SECONDS)

    def _greet(self, connected: socket.socket) -> None:
        """Take the connection if it has the token, and the number of another node."""
        link = Connection(connected)
        try:
            rank = self._rank_in(link.receive(HELLO_BYTES, time.monotonic() + HELLO_SECONDS))
            connected.settimeout(None)
        except (OSError, ValueError, LookupError, TypeError):
            link.close()
            return
        with self._changed:
            if (before := self._links.pop(rank, None)) is not None:
                before.close()
            self._links[rank] = link
            self._changed.notify_all()

    def _rank_in(self, hello: Message) -> int:
        """The node that says `hello`. ValueError without the token, or for a node that does not exist."""
        if not hmac.compare_digest(str(hello["token"]).encode(), self._token.encode()):
            raise ValueError("a stranger")
        rank = int(hello["rank"])
        if not 0 < rank < self.nodes:
            raise ValueError(f"there is no node {rank}")
        return rank

    def wait_for_all(self) -> None:
        """Wait until all nodes are connected."""
        with self._changed:
            self._changed.wait_for(lambda: not self.missing)

    @property
    def missing(self) -> list[int]:
        """The nodes that are not connected."""
        return [rank for rank in range(1, self.nodes) if rank not in self._links]

    def ask(self, messages: Mapping[int, Message], meanwhile: Callable[[], T]) -> tuple[dict[int, Message], T]:
        """Send each node its message, do something `meanwhile`, and wait for all answers.

        The answers by rank, and the result. The error of `meanwhile`; without one NodeAwayError if a node has gone;
        otherwise the first error that a node answers. All nodes that are there have answered then.
        """
        with self._changed:
            links = {rank: self._links.get(rank) for rank in messages}
        answers: dict[int, Message] = {}
        away: dict[int, Exception] = {}
        for rank, message in messages.items():
            self._try(rank, links[rank], away, partial(Connection.send, message=message))
        try:
            done = meanwhile()
        finally:
            for rank in messages.keys() - away.keys():
                found = self._try(rank, links[rank], away, partial(Connection.answer, left=self._left))
                if found is not None:
                    answers[rank] = found
        if away:
            rank, why = next(iter(sorted(away.items())))
            raise NodeAwayError(f"the process that saves the folder of node {rank} does not answer: {why}")
        for rank, answer in sorted(answers.items()):
            if "error" in answer:
                raise error_of(rank, answer)
        return answers, done

    def _try(
        self,
        rank: int,
        link: Connection | None,
        away: dict[int, Exception],
        do: Callable[[Connection], Message | None],
    ) -> Message | None:
        try:
            if link is None:
                raise ConnectionResetError("it is not connected")
            return do(link)
        except (OSError, ValueError, TypeError) as error:
            away[rank] = error
            with self._changed:
                if link is not None and self._links.get(rank) is link:
                    del self._links[rank]
            if link is not None:
                link.close()
            return None


def say_where(storage: Storage, environment: Environment, port: int, token: str) -> None:
    """Say where node 0 listens, and delete what earlier attempts have said."""
    key = _key(environment.identity.attempt)
    body = {"v": 1, "address": environment.pod_ip, "port": port, "token": token}
    storage.put(key, json.dumps(body).encode())
    if earlier := [one for one in storage.keys(FOLDER) if one < key]:
        storage.delete(earlier)


def _key(attempt: int) -> str:
    return f"{FOLDER}{attempt:012d}.json"


# --- the side of the others -------------------------------------------------------------------------------------------


def connect(
    environment: Environment, storage: Storage, is_over: Callable[[], bool], *, is_patient: bool
) -> Connection | None:
    """A connection with node 0, after waiting until it listens. None once `is_over`. FencedError, AlreadyCompleteError.

    `is_patient`: it waits also for a storage that fails; otherwise StorageErrors.
    """
    told, log = 0.0, CommitLog(storage, environment.identity)
    while not is_over():
        try:
            try:
                return _connected(environment, storage)
            except (KeyMissingError, OSError, ValueError, LookupError, TypeError):
                _check_may_wait(log, environment, storage)
                raise
        except (StorageError, OSError, ValueError, LookupError, TypeError) as error:
            if not is_patient and isinstance(error, StorageError) and not isinstance(error, KeyMissingError):
                raise
            if time.monotonic() >= told:
                say(f"waits for the process that saves the folder of node 0 ({_why(error)})")
                told = time.monotonic() + 60.0
            time.sleep(LOOK_SECONDS)
    return None


def _connected(environment: Environment, storage: Storage) -> Connection:
    where = json.loads(storage.get(_key(environment.identity.attempt)))
    link = Connection(socket.create_connection((str(where["address"]), int(where["port"])), CONNECT_SECONDS))
    link.send({"rank": environment.node_rank, "token": where["token"]})
    return link


def _check_may_wait(log: CommitLog, environment: Environment, storage: Storage) -> None:
    """FencedError if a newer attempt has started, AlreadyCompleteError if training is over: node 0 will not listen."""
    state = log.refresh()
    if state.fence is not None and state.fence.attempt > environment.identity.attempt:
        raise FencedError(f"attempt {state.fence.attempt} has started: this process saves nothing more")
    if state.complete is not None:
        raise AlreadyCompleteError(state.complete, storage.uri)


def _why(error: Exception) -> str:
    return "it has not begun" if isinstance(error, KeyMissingError) else str(error)


# --- errors -----------------------------------------------------------------------------------------------------------


def answer_of(error: Exception) -> Message:
    """The answer of a node that has failed."""
    if isinstance(error, ChangedError):
        return {"error": "changed", "what": str(error)}
    if isinstance(error, (CheckpointCorruptError, KeyMissingError)):
        return {"error": "broken", "what": str(error)}
    if isinstance(error, StorageFullError):
        return {"error": "full", "what": str(error)}
    return {"error": "storage" if isinstance(error, (StorageError, OSError)) else "failed", "what": str(error)}


def error_of(rank: int, answer: Message) -> Exception:
    """What `answer` of the node says, as an error here."""
    what = f"node {rank}: {answer.get('what')}"
    kinds: dict[str, type[HoldfastTrainError]] = {
        "broken": CheckpointCorruptError,
        "full": StorageFullError,
        "storage": StorageError,
    }
    if answer["error"] == "changed":
        return ChangedError(f"node {rank}:", str(answer.get("what")))
    return kinds.get(str(answer["error"]), EnvironmentVariableError)(what)
