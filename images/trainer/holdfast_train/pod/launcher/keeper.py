"""`Keeper`: keeps the copies of the state in memory for the next program in this pod.

With several nodes a program may end, or be ended, and start again in the same pod. Its ranks copy the state into files
in memory (arenas). A file in memory is freed with the last process that has it, so the launcher keeps them open. The
ranks of the next program read from them what is intact, in place of the storage: `restore/surviving_bytes.py`. While a
program starts it may need more memory than while it trains: if memory gets short before its ranks have restored, the
files are freed.

The launcher neither reads nor writes these files, and nobody gets them from it for writing: it opens them again, for
reading only. So an arena has one owner for its whole life: the rank that has made it.

A rank connects to a socket in a folder of this user, and each connection is one request, a line of JSON:

- `{"do": "keep", "name": N}`, with one file: it takes the place of the one of the same name;
- `{"do": "drop", "prefix": P, "but": [N, …]}`: forget the files whose names begin with P, but not N and `N.note`;
- `{"do": "list"}`: the answer, a JSON list of names, comes with the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator

from .room import is_short
from .timings import USUAL, Timings
from .verdict_files import say, temporary_folder

REQUEST_BYTES = 4096
CLIENT_SECONDS = 5.0  # for a request to come, after its connection
MOST_FILES = 250  # Linux passes at most 253 in one message


class Keeper:
    """Serves requests at `address` in a thread, until `close`."""

    def __init__(self, address: str, *, timings: Timings = USUAL) -> None:
        """OSError if there can be no socket at `address`."""
        self._timings = timings
        self.address = address
        self._files: dict[str, int] = {}
        self._lock = threading.Lock()
        self._old: set[str] = set()  # names of files of the attempt before
        self._guard: threading.Thread | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._server.bind(address)
            self._server.listen(64)
        except OSError:
            self._server.close()
            raise
        threading.Thread(target=self._serve, name="keeper", daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._server.close()

    def expect_program(self) -> None:
        """A program starts: until its ranks have restored, what is kept is freed if memory gets short."""
        with self._lock:
            self._old = set(self._files)
        if self._old and (self._guard is None or not self._guard.is_alive()):
            self._guard = threading.Thread(target=self._watch, name="keeper-memory", daemon=True)
            self._guard.start()

    def _watch(self) -> None:
        while self._old:
            if is_short():
                say("memory is short: the copies of the state are freed, and the programs read the storage")
                with self._lock:
                    for name in list(self._old):
                        self._drop(name)
            time.sleep(self._timings.keeper_look)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                break
            with client:
                client.settimeout(CLIENT_SECONDS)
                try:
                    with self._lock:
                        self._answer(client)
                except (OSError, ValueError, LookupError, TypeError) as error:
                    say(f"a request to keep memory failed: {type(error).__name__}: {error}")
        with self._lock:
            self._drop("")

    def _answer(self, client: socket.socket) -> None:
        data, files, _, _ = socket.recv_fds(client, REQUEST_BYTES, 1)
        try:
            request = json.loads(data)
            names = sorted(self._files) if request["do"] == "list" else []
            if request["do"] == "keep":
                self._keep(request["name"], files[0])
            elif request["do"] == "drop":
                but = [str(name) for name in request.get("but", ())]
                self._drop(request["prefix"], (*but, *(f"{name}.note" for name in but)))
            elif request["do"] != "list":
                raise ValueError(f"do is {request['do']!r}; allowed: keep, drop, list")
            socket.send_fds(client, [json.dumps(names).encode()], [self._files[name] for name in names])
        finally:
            for file in files:
                os.close(file)

    def _keep(self, name: str, file: int) -> None:
        if len(self._files) >= MOST_FILES and name not in self._files:
            raise ValueError(f"{MOST_FILES} files are kept already")
        kept = os.open(f"/proc/self/fd/{file}", os.O_RDONLY)
        for old in (name, f"{name}.note"):  # a note of what the file contained before
            if old in self._files:
                self._forget(old)
        self._files[name] = kept

    def _drop(self, prefix: str, but: Collection[str] = ()) -> None:
        for name in [name for name in self._files if name.startswith(prefix) and name not in but]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        os.close(self._files.pop(name))
        self._old.discard(name)


@contextlib.contextmanager
def keeper() -> Iterator[Keeper | None]:
    """A Keeper, None if there can be none: then the next program reads its state from the storage."""
    with temporary_folder() as folder:
        try:
            found = Keeper(f"{folder or ''}/keeper")
        except OSError as error:
            say(f"copies of the state are not kept in memory for the next attempt: {error}")
            yield None
            return
        try:
            yield found
        finally:
            found.close()
