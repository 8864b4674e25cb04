"""`KeeperMemory`: files in memory that the launcher keeps while no rank runs. See `pod/launcher/keeper.py`.

A file has the copy of a rank's state. A second file beside it, the note, says what the copy contains.
"""

import json
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast_train.memory_file import memory_file
from holdfast_train.say import say

CALL_SECONDS: Final = 5.0  # for the launcher to answer
ANSWER_BYTES: Final = 16384
MOST_FILES: Final = 250
MOST_NOTE_BYTES: Final = 64 << 20
OF_PEER: Final = 900  # the number of a file that another node has sent
ATTEMPTS: Final = 4  # whose files have numbers of their own: one attempt may keep those of the one before
_NAME: Final = re.compile(r"(\d{1,9})\.(\d{1,9})(\.note)?")


def file_numbers(attempt: int) -> tuple[int, int]:
    """The numbers of the files for the two arenas of a rank in this attempt."""
    first = 2 * (attempt % ATTEMPTS)
    return first, first + 1


@dataclass(frozen=True)
class Kept:
    """What is kept, by rank: descriptors of files, which the caller closes, and notes."""

    files: Mapping[int, Sequence[int]] = field(default_factory=dict)
    notes: Mapping[int, Sequence[bytes]] = field(default_factory=dict)


class KeeperMemory:
    """The launcher's end is at `address`; None: nothing is kept. It is a cache, so an error is said and not raised."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def keep(self, rank: int, number: int, file: int) -> None:
        """Let the launcher keep this file of `rank` in place of the one with the same number, which it frees."""
        self._call({"do": "keep", "name": f"{rank}.{number}"}, [file])

    def note(self, rank: int, number: int, text: bytes) -> None:
        """Let the launcher keep the note of the file with this number, in place of the one before."""
        if self._address is None:
            return
        try:
            file = memory_file("holdfast-note")
        except OSError as error:
            say(f"no note is kept of a copy of the state in memory: {error}")
            return
        try:
            os.write(file, text)
            self._call({"do": "keep", "name": f"{rank}.{number}.note"}, [file])
        except OSError as error:
            say(f"no note is kept of a copy of the state in memory: {error}")
        finally:
            os.close(file)

    def drop(self, rank: int, *, but: Iterable[int] = ()) -> None:
        """Let the launcher free the files of `rank`, but not those with these numbers."""
        self._call({"do": "drop", "prefix": f"{rank}.", "but": [f"{rank}.{number}" for number in but]})

    def list(self) -> Kept:
        """What is kept, opened for reading."""
        names, files = self._call({"do": "list"})
        found: dict[int, list[int]] = {}
        notes: dict[int, list[bytes]] = {}
        for name, file in zip(names, files, strict=False):
            of = _NAME.fullmatch(str(name))
            if of is not None and not of[3]:
                found.setdefault(int(of[1]), []).append(file)
                continue
            if of is not None:
                notes.setdefault(int(of[1]), []).append(os.pread(file, min(os.fstat(file).st_size, MOST_NOTE_BYTES), 0))
            os.close(file)
        return Kept(found, notes)

    def _call(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> tuple[Sequence[Any], Sequence[int]]:
        """The answer to one request, and the files that came with it."""
        if self._address is None:
            return [], []
        received: list[int] = []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as launcher:
                launcher.settimeout(CALL_SECONDS)
                launcher.connect(self._address)
                socket.send_fds(launcher, [json.dumps(request).encode()], list(files))
                answer, received, _, _ = socket.recv_fds(launcher, ANSWER_BYTES, MOST_FILES)
            return [*json.loads(answer)], received
        except (OSError, ValueError) as error:
            for file in received:
                os.close(file)
            say(f"the launcher does not keep copies of the state in memory ({request['do']}: {error})")
            return [], []
