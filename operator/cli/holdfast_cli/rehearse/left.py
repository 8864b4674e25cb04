"""What a run of the program has left: what the runs are compared by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from holdfast_train.storage.base import Storage


class Interruption(StrEnum):
    """What ends a start of the program before its end."""

    NOTICE = "notice"
    """The node is reclaimed: SIGTERM, and the grace. The next start has an empty folder."""
    CRASH = "crash"
    """The program is killed. The next start has the folder as the program left it."""
    CRASH_IN_SAVE = "crash-in-save"
    """The program is killed while it writes a save. The next start has the folder as the program left it."""
    LOST_NODE = "lost-node"
    """The machine is gone without a word. The next start has an empty folder."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the program, number `number` from 1 on. None: not known.

    `ended_by`: None if the program ended by itself, with `exit_code` (negative: the signal). `resumed`: the step of the
    checkpoint that was put back; `has_resumed`: there was one, also one whose step nothing says. `first` and `last`:
    the steps that the program reported first and last. `seconds`: how long it ran; `seconds_to_first`: until the first
    step that it reported. `torn`: a file that the program was writing when it was killed; empty if all files were
    whole. `note`: more on its end.
    """

    number: int
    ended_by: Interruption | None
    exit_code: int | None
    resumed: int | None
    has_resumed: bool
    first: int | None
    last: int | None
    seconds: float
    seconds_to_first: float | None
    torn: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """What one run left, from its first start to its end.

    `folders`: `checkpoint.folder` as it was at the end, of each node; none of a program with `Run`, whose checkpoints
    lie in `store`. `figures`: by step, what the program reported, such as the loss; of a step that was trained twice,
    what the last start reported. `is_sampled`: they are not of all steps, and not always of the last one. `saves`:
    paths in the first folder that are saves of the program, each a file or a folder, the newest last; `written`: all
    that were ever committed. `said`: the last lines that the program printed.
    """

    name: str
    store: Storage
    folders: tuple[Path, ...]
    figures: Mapping[int, Mapping[str, float]]
    starts: tuple[Start, ...]
    saves: tuple[str, ...] = ()
    written: frozenset[str] = frozenset()
    is_sampled: bool = False
    said: str = field(default="", repr=False)

    @property
    def is_complete(self) -> bool:
        """True if the program has come to its end with exit code 0."""
        return bool(self.starts) and self.starts[-1].ended_by is None and self.starts[-1].exit_code == 0
