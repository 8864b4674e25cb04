"""`KeptMemory`: files in memory that the launcher keeps while no rank runs. See `pod/launcher/keeper.py`."""

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast_train.say import say

__all__ = ["KeptMemory"]

CALL_SECONDS: Final = 5.0  # for the launcher to answer
ANSWER_BYTES: Final = 16384
MOST_FILES: Final = 250
_NAME: Final = re.compile(r"(\d{1,9})\.(\d{1,9})")


class KeptMemory:
    """The launcher's end is at `address`; None: nothing is kept. It is a cache, so an error is said and not raised."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def keep(self, rank: int, number: int, file: int) -> None:
        """Let the launcher keep this file of `rank` in place of the one with the same number, which it frees."""
        self._call({"do": "keep", "name": f"{rank}.{number}"}, [file])

    def drop(self, rank: int) -> None:
        """Let the launcher free the files of `rank`."""
        self._call({"do": "drop", "prefix": f"{rank}."})

    def files(self) -> Mapping[int, Sequence[int]]:
        """The descriptors of all files, by rank, opened for reading. The caller closes them."""
        names, files = self._call({"do": "list"})
        found: dict[int, list[int]] = {}
        for name, file in zip(names, files, strict=False):
            if (of := _NAME.fullmatch(str(name))) is None:
                os.close(file)
            else:
                found.setdefault(int(of[1]), []).append(file)
        return found

    def _call(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> tuple[list[Any], list[int]]:
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
            return list(json.loads(answer)), received
        except (OSError, ValueError) as error:
            for file in received:
                os.close(file)
            say(f"the launcher does not keep copies of the state in memory ({request['do']}: {error})")
            return [], []
