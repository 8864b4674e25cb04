"""The last lines of a program, in its own words.

When a rank has failed, torchrun prints some forty lines, after which the words of the rank are hard to find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast_protocol.lost_peer import says_peer_is_gone
from holdfast_protocol.verdict import LINES_KEPT, ROOT_CAUSE

from .failed_process import without_command

# The forms of all versions of torch from 1.13 on: a path, or the name of a logger.
_ELASTIC = r"torch[./]distributed[./]elastic[./]"
_BEGIN = re.compile(_ELASTIC + r"multiprocessing[./]api\b.*failed \(exitcode: |^torch\.distributed\S*ChildFailedError:")
_ABOUT_OTHERS = re.compile(_ELASTIC + r".*Sending process \d+ closing signal")
_CAUSE = re.compile(r"Root Cause(?:(?!exitcode).)*exitcode *: *(?P<code>-?\d+[^\n]*)", re.DOTALL)
_OF_RANK = re.compile(r"\[rank(?P<rank>\d+)\]:")  # begins each line of an exception, once there is a process group
_RANK = re.compile(r"^ *rank *: *(?P<rank>[^\n]*)", re.MULTILINE)


def last_lines(errors: Sequence[str], output: Sequence[str]) -> tuple[str, ...]:
    """The last lines of a program, of its standard error if there are any, without the words of what started it.

    One line stays of a report of torchrun: which rank failed first, and how. Ranks that only lost their peer are left
    out if another rank of this node has failed by itself.
    """
    begin = next((number for number, line in enumerate(errors) if _BEGIN.search(line)), len(errors))
    own = _without_victims([line for line in errors[:begin] if not _ABOUT_OTHERS.search(line)])
    report = "\n".join(errors[begin:])
    cause = _CAUSE.search(report)
    if cause is None:  # no torchrun, or another error of it: its own words count
        words, how = without_command(errors)
        ending = (how,) if how else ()
        return (*(words or output)[len(ending) - LINES_KEPT :], *ending)
    rank = _RANK.search(cause[0])
    first = f"rank {rank['rank'].strip()}, " if rank else ""
    return (*(own or output)[-LINES_KEPT + 1 :], f"{ROOT_CAUSE}{first}exitcode: {cause['code'].strip()}")


def _without_victims(lines: Sequence[str]) -> list[str]:
    """The lines without those of ranks that lost their peer; all lines if no rank has failed by itself.

    The others of a node fail within milliseconds of the first one, so torchrun may name any of them.
    """
    by_rank: dict[str, list[str]] = {}
    for line in lines:
        if found := _OF_RANK.match(line):
            by_rank.setdefault(found["rank"], []).append(line)
    victims = {rank for rank, words in by_rank.items() if says_peer_is_gone("\n".join(words))}
    if len(victims) == len(by_rank):  # also if no line names its rank
        return list(lines)
    return [line for line in lines if not ((found := _OF_RANK.match(line)) and found["rank"] in victims)]
