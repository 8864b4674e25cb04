"""The file in which each rank reports its end to the launcher: torchrun's exit code cannot say it."""

import os
import sys
import time
from pathlib import Path

from holdfast_protocol.rank_verdict import RankVerdict, Result, to_text
from holdfast_train.pod.rank_evidence import answer_launcher
from holdfast_train.pulse import Pulse
from holdfast_train.say import say


def forget_rank_verdict(folder: str | None, rank: int) -> None:
    """Remove the verdict of an earlier process of this rank: torchrun may have restarted the rank after a failure."""
    if folder is not None:
        (Path(folder) / f"rank-{rank}.json").unlink(missing_ok=True)


def begin_rank(folder: str | None, rank: int) -> Pulse:
    """Forget what an earlier process of this rank has told the launcher. Returns the pulse of this one."""
    forget_rank_verdict(folder, rank)
    pulse = Pulse(folder, rank)
    pulse.beat("starting", None)
    answer_launcher(folder, rank)
    return pulse


def write_rank_verdict(
    folder: str | None,
    rank: int,
    result: Result,
    *,
    reason: str = "",
    message: str = "",
    step: int | None = None,
    saved_step: int | None = None,
) -> None:
    """Write `rank-<rank>.json` into `folder`, completely or not at all. No folder (no launcher): do nothing.

    After the end of its run, a rank does not answer the launcher any more.
    """
    if folder is None:
        return
    if result != "running":
        answer_launcher(None, rank)
    told = RankVerdict(rank, result, reason, message, step, saved_step, time.time(), os.getpid(), sys.executable)
    path = Path(folder) / f"rank-{rank}.json"
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        temporary.write_text(to_text(told), encoding="ascii")
        temporary.replace(path)
    except OSError as error:
        say(f"the verdict of rank {rank} could not be written: {error}")
