"""`Looking`: looks at the folder again and again, and says once what is not saved with it."""

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast_train.folder import words
from holdfast_train.folder.index import MOST_BYTES
from holdfast_train.folder.look import Look, Rules, TooMuchError, look
from holdfast_train.say import say

SHARE: Final = 20.0  # what a look takes, so many times, is the shortest time between two looks


class Looking:
    """Of the folder `root`. `pause`: until the next look, in seconds; at least `every`."""

    def __init__(self, root: Path, rules: Rules, every: float) -> None:
        self._every = every
        self.root = root
        self._rules = rules
        self._said: set[str] = set()  # paths that are not saved
        self._last = Look({}, {})
        self.pause = every

    def take(self) -> Look:
        """What is in the folder. OSError if it cannot be read, TooMuchError if it is too large to be committed."""
        started = time.monotonic()
        seen = self._last = look(self.root, self._rules, before=self._last.files)
        self.pause = max(self._every, SHARE * (time.monotonic() - started))
        if (size := sum(file.size for file in seen.files.values())) > MOST_BYTES:
            raise TooMuchError(
                f"{self.root} has {words.mib(size)}, more than {words.mib(MOST_BYTES)}, most of them in "
                f"{words.largest(seen.files)}"
            )
        outside = dict.fromkeys(sorted(seen.outside), "a link out of the folder: what it leads to is not saved")
        if new := {path: why for path, why in {**seen.out, **outside}.items() if path not in self._said}:
            say(f"not saved with {self.root}: {words.paths(new)}")
            self._said |= new.keys()
        return seen

    def again(self, left_out: Collection[str]) -> Look:
        """One more look, at once, without the files that are `left_out`."""
        seen = look(self.root, self._rules, before=self._last.files)
        return replace(seen, files={path: file for path, file in seen.files.items() if path not in left_out})
