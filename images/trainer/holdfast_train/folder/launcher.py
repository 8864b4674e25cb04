"""`Launcher`: the launcher of the pod, as its writer of the folder sees it. They talk in lines of JSON.

It is told `ready` when the program may start, `refused` if it must not, `leave` if the program is to get SIGTERM,
`fenced` if it has to end, and `done` after `finish`. It says `leave` when the program has got SIGTERM, and `finish`
when the program has ended. When its lines end, it is gone, and so is the writer.
"""

import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from holdfast_train.errors import StorageUnreachableError


class Launcher:
    """`out`: the lines to it. `inbox`: its commands, and None at their end. `deadline`: when all must be saved.

    `on_finish` is called in another thread when the program has ended.
    """

    def __init__(self, out: IO[str], on_finish: Callable[[], None] = lambda: None) -> None:
        self._out = out
        self._lock = threading.Lock()
        self.on_finish = on_finish
        self.inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.deadline = math.inf

    def listen(self) -> None:
        """Take its commands from now on."""
        threading.Thread(target=self._listen, name="holdfast-launcher", daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "finish":
                self.finish_by(command["seconds"])
            self.inbox.put(command)
        self.inbox.put(None)
        if math.isinf(self.deadline):  # the launcher is gone, and the program too: nothing may go on
            os._exit(1)

    def finish_by(self, seconds: float | None) -> None:
        """The program has ended, and the writer has `seconds` more. Any thread may call this."""
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self.on_finish()

    def tell(self, state: str, **more: Any) -> None:
        """Send one line. Any thread may call this."""
        with self._lock:
            self._out.write(json.dumps({"state": state, **more}) + "\n")
            self._out.flush()

    @property
    def seconds_left(self) -> float:
        """Until everything must be saved; infinite while the program runs, and if nobody waits for the pod's end."""
        return self.deadline - time.monotonic()

    def check(self) -> None:
        """StorageUnreachableError if the time is over."""
        if self.seconds_left < 0:
            raise StorageUnreachableError("the time to save before the pod ends is over")
