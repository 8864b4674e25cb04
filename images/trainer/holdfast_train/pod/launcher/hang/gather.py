"""`look` and `gather`: what the ranks of a training that hangs do, while they still do it.

Each rank has answered its launcher's questions since it began (`holdfast_train.pod.rank_evidence`), and goes on. In
`gather`, a rank that a signal has stopped ends as it answers, after all others: it must not train on.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast_protocol.rank_verdict import RankVerdict

from ..process_tree import letter_of, send
from ..timings import USUAL, Timings

# A rank that does not answer gets one: it writes its stacks, and goes on or ends. No library is known to use these, and
# macOS has none of them.
GO_ON_SIGNAL = getattr(signal, "SIGRTMIN", 0) + 8
END_SIGNAL = GO_ON_SIGNAL + 1
STACKS, ASK, ANSWER = "stacks-{}", "ask-{}", "collectives-{}.json"  # files beside the verdicts, by rank
PAUSE = 0.05  # between two looks
MOST_BYTES = 512 << 10  # of the stacks of all ranks of a node, and of their collectives,
RANK_BYTES = 64 << 10  # and of one; the end counts, because the main thread is there
READ_BYTES = 16 << 20  # of the collectives that a rank tells: more than torch records
STOPPED = "T"  # letter in /proc of a process that SIGSTOP has stopped


def look(
    folder: str, verdicts: Iterable[RankVerdict], steps: Mapping[int, int | None], *, timings: Timings = USUAL
) -> list[dict[str, Any]]:
    """For each rank: its step, the letter of its state in /proc, its stacks, and its collectives, if it told them.

    The ranks go on. One that is stopped has no stacks. `steps`: by rank.
    """
    ranks = _known(verdicts)
    letters = {one.rank: letter_of(one.pid) for one in ranks}
    answers = {one.rank: Path(folder, ANSWER.format(one.rank)) for one in ranks if letters[one.rank] != STOPPED}
    for path in answers.values():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of an earlier look
    begins = {one.rank: _size(Path(folder, STACKS.format(one.rank))) for one in ranks}  # after what earlier looks wrote
    asked = [answers[rank] for rank in answers if _ask(Path(folder, ASK.format(rank)))]
    _wait(lambda: all(path.exists() for path in asked), timings.rank_answer)
    stacks = _Stacks(folder, len(ranks), timings.rank_stacks)
    return [
        {
            "rank": one.rank,
            "step": steps.get(one.rank),
            "state": letters[one.rank],
            "stacks": stacks(one, begins[one.rank], GO_ON_SIGNAL) if one.rank in answers else "",
            "collectives": _read(answers.get(one.rank), min(RANK_BYTES, MOST_BYTES // len(ranks))),
        }
        for one in ranks
    ]


def gather(
    folder: str, verdicts: Iterable[RankVerdict], steps: Mapping[int, int | None], hold: float = 0.0
) -> list[dict[str, Any]]:
    """As `look`, with the stacks of all ranks, which are stopped or have ended afterwards.

    `hold`: seconds before the first of them ends.
    """
    ranks = {one.rank: one for one in _known(verdicts)}
    stacks = _Stacks(folder, len(ranks), USUAL.rank_stacks)
    found = look(folder, ranks.values(), steps)
    for one in found:
        if one["state"] != STOPPED:
            send(ranks[one["rank"]].pid, signal.SIGSTOP)
    time.sleep(hold)
    for one in found:
        if one["state"] == STOPPED:
            rank = ranks[one["rank"]]
            begin = _size(Path(folder, STACKS.format(rank.rank)))
            one["stacks"] = stacks(rank, begin, END_SIGNAL)
    return found


def _known(verdicts: Iterable[RankVerdict]) -> list[RankVerdict]:
    return sorted((one for one in verdicts if one.pid), key=lambda one: one.rank)


def _ask(pipe: Path) -> bool:
    """True if a rank reads the question."""
    try:
        number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # an older library makes no pipe, or the rank has ended
        return False
    try:
        return os.write(number, b"?") == 1
    except OSError:
        return False
    finally:
        os.close(number)


def _read(path: Path | None, most: int) -> dict[str, Any]:
    """The collectives by process group, as far as the file has that form: the program can write it too.

    Without the last ones of each group if they have over `most` bytes.
    """
    if path is None or _size(path) > READ_BYTES:
        return {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        text = path.read_text(encoding="utf-8")
        told = json.loads(text)
        if not isinstance(told, dict):
            return {}
        # The library of the program may be of another version than this launcher.
        found = {name: one for name, one in told.items() if isinstance(one, dict) and type(one.get("number")) is int}
        if len(text) <= most:
            return found
        short = {name: {**one, "last": []} for name, one in found.items()}
        return short if len(json.dumps(short)) <= most else {}
    return {}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Stacks(NamedTuple):
    """Reads what the threads of ranks do. `ranks`: how many there are; `seconds`: for one to write it on a signal."""

    folder: str
    ranks: int
    seconds: float

    def __call__(self, rank: RankVerdict, begin: int, number: int) -> str:
        """What the rank wrote after byte `begin`, or writes on the signal `number`."""
        path = Path(self.folder, STACKS.format(rank.rank))
        if not path.exists():  # of an older library, which has no handler: the signal would end the process
            return ""
        if _size(path) == begin:
            _ask_by_signal(rank.pid, path, begin, number, self.seconds)
        most = min(RANK_BYTES, MOST_BYTES // self.ranks)
        return path.read_bytes()[begin:][-most:].decode("utf-8", "replace")


def _ask_by_signal(pid: int, path: Path, begin: int, number: int, seconds: float) -> None:
    """No Python runs in the process: it is stopped, or its native code keeps the interpreter lock.

    Where Python runs, the signal may end the process (`rank_evidence`).
    """
    sizes = [-1, begin]

    def is_written() -> bool:
        sizes.append(_size(path))
        return begin < sizes[-1] == sizes[-2]

    _signal_main_thread(pid, number)
    send(pid, signal.SIGCONT)
    _wait(is_written, seconds)


def _signal_main_thread(pid: int, number: int) -> None:
    """It gets the signal before it goes on. Another thread could get a signal to the process, and be later than it."""
    to_thread = getattr(ctypes.CDLL(None), "tgkill", None)
    if to_thread is None:  # a C library without it, such as musl
        send(pid, number)
    else:
        to_thread(pid, pid, number)


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(PAUSE)
