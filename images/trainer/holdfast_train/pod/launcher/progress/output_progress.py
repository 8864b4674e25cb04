"""`OutputProgress`: the progress of one program, and its run in a tracker, from the lines that it prints.

What passes the output on only leaves a copy here. A thread of its own looks at the newest output, at most once a second
and for at most a twentieth of the time. A program that prints more than that is not slowed: older output is left out.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping

from ..tee import plain
from .figures import Figures
from .patterns import Pattern
from .wandb_lines import run_url

MOST_BYTES = 65_536  # of each output, between two looks
LINE_BYTES = 2_048  # the rest of a longer line is not looked at
PAUSE_SECONDS = 1.0  # between two looks; and an unfinished line counts if nothing follows for as long
SHARE = 20  # a look is followed by a pause that is this many times as long
LAST_SECONDS = 1.0  # for the last look, after the end of the program
_ENDS = re.compile(rb"[\r\n]+")  # a bar is rewritten with "\r"


class _Stream:
    """The newest output of one pipe."""

    def __init__(self) -> None:
        self.fresh, self.is_cut = bytearray(), False
        self._rest, self._is_seen, self._skips = b"", True, False

    def add(self, data: bytes) -> None:
        self.fresh += data
        if len(self.fresh) > MOST_BYTES:
            del self.fresh[:-MOST_BYTES]
            self.is_cut = True

    @property
    def waits(self) -> bool:
        """True if there is an unfinished line that was not looked at."""
        return not self._is_seen

    def lines(self, data: bytes, *, is_cut: bool, is_last: bool) -> list[bytes]:
        """The lines that `data` ends, and the unfinished one if nothing has followed it."""
        if is_cut:
            self._rest, self._skips = b"", True
        first, *more = _ENDS.split(data)
        if more:
            whole = [*([] if self._skips else [self._rest + first]), *more[:-1]]
            self._rest, self._skips = more[-1][:LINE_BYTES], False
        else:
            whole = []
            self._rest = b"" if self._skips else (self._rest + first)[:LINE_BYTES]
        if data:
            self._is_seen = not self._rest
        if self._rest and not self._is_seen and (is_last or not data):
            self._is_seen = True
            whole.append(self._rest)
        return [line[:LINE_BYTES] for line in whole]


class OutputProgress:
    """Looks at two outputs and offers each change to `offer`: metrics by name, as the relay reads them.

    `track` gets the address of the run of Weights & Biases; None: it is not looked for.
    """

    def __init__(
        self,
        patterns: list[Pattern],
        offer: Callable[[Mapping[str, str]], None],
        track: Callable[[str], None] | None = None,
    ) -> None:
        self._figures, self._offer, self._track = Figures(patterns), offer, track
        self._streams = (_Stream(), _Stream())
        self._changed = threading.Condition()
        self._is_over = self._gave_way = False
        self._thread = threading.Thread(target=self._run, name="output-progress", daemon=True)
        self._thread.start()

    def add_out(self, data: bytes) -> None:
        """The program has printed this to its standard output."""
        self._add(self._streams[0], data)

    def add_err(self, data: bytes) -> None:
        """The program has printed this to its standard error."""
        self._add(self._streams[1], data)

    def give_way(self) -> None:
        """The program reports by itself: no metrics are read any more from what it prints."""
        self._gave_way = True
        if self._track is None:
            self._end()

    def finish(self) -> None:
        """Look at what is left, for LAST_SECONDS at most."""
        self._end()
        self._thread.join(LAST_SECONDS)

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _add(self, stream: _Stream, data: bytes) -> None:
        with self._changed:
            if not self._is_over:
                stream.add(data)
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                pause = PAUSE_SECONDS if any(stream.waits for stream in self._streams) else None
                self._changed.wait_for(lambda: self._is_over or any(s.fresh for s in self._streams), pause)
                is_over, taken = self._is_over, [(s, bytes(s.fresh), s.is_cut) for s in self._streams]
                for stream in self._streams:
                    stream.fresh, stream.is_cut = bytearray(), False
            began = time.thread_time()
            self._look([line for s, data, cut in taken for line in s.lines(data, is_cut=cut, is_last=is_over)])
            if is_over:
                return
            with self._changed:
                took = time.thread_time() - began
                self._changed.wait_for(lambda: self._is_over, max(PAUSE_SECONDS, SHARE * took))

    def _look(self, lines: list[bytes]) -> None:
        before, url = dict(self._figures.metrics), None
        for line in lines:
            text = plain(line.decode("utf-8", "replace"))
            if self._track is not None:
                url = run_url(text) or url
            if not self._gave_way:
                self._figures.read(text)
        if url is not None and self._track is not None:
            self._track(url)
        if self._figures.metrics != before and not self._gave_way:
            self._offer(dict(self._figures.metrics))
