"""Which ranks of a training that hangs are at fault, by their stacks too. The launcher and `holdfast evidence` say it.

`holdfast_protocol.hang` has the rules that the operator uses as well, to compare nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from holdfast_protocol.hang import GROUP_NAME, MOST_GROUPS, Fault, Hang, at_fault

# A frame in the report of Python's faulthandler, and files of libraries.
_FRAME = re.compile(r' *File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3|/holdfast_train/|^<frozen ")
_STANDARD = re.compile(r"/lib/python3[^/]*/(?!site-packages/|dist-packages/)|^<frozen ")
# Files of which a function waits for other ranks, or for a GPU that does. DDP waits in the backward pass.
_WAITS = re.compile(r"/torch/(?:distributed/|autograd/|cuda/)|/holdfast_train/(?:ranks|run/step_agreement)\.py$")
_STOPPED, _ENDED = "T", "ZX"  # letters of /proc


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.file.rpartition('/')[2]}, line {self.line})"


def main_stack(stacks: str) -> list[Frame]:
    """The frames of the main thread, the innermost first: it is the last thread of the report of faulthandler."""
    lines = stacks.splitlines()
    starts = [number for number, line in enumerate(lines) if line.endswith("(most recent call first):")]
    after = lines[starts[-1] + 1 :] if starts else []
    found = takewhile(lambda one: one is not None, (_FRAME.fullmatch(line) for line in after))
    return [Frame(one["file"], one["line"], one["name"]) for one in found if one is not None]


def place(stacks: str) -> str:
    """Where the main thread is, empty if that is not known. Its innermost frame of the program's own code says most."""
    frames = main_stack(stacks)
    own = [frame for frame in frames if not _LIBRARY.search(frame.file)]
    return str((own or frames)[0]) if frames else ""


def waits(stacks: str) -> bool | None:
    """True if the main thread waits for other ranks; None if its stack is not known.

    Its innermost frame says it. Those of Python's own library do not count: they wait for anything.
    """
    innermost = next((frame for frame in main_stack(stacks) if not _STANDARD.search(frame.file)), None)
    return None if innermost is None else bool(_WAITS.search(innermost.file))


def suspects(ranks: Iterable[Mapping[str, Any]]) -> Sequence[Fault]:
    """The ranks at fault, by the first rule that separates some ranks from the others; empty if none does.

    After the rules that compare nodes too: a rank is at another place than most, or has done fewer steps. `ranks`: as
    the launcher gathers them, also those of several nodes.
    """
    known = sorted(ranks, key=lambda one: one["rank"])
    found = _stopped(known)
    if not 0 < len(found) < len(known):
        found = at_fault({one["rank"]: _alone(one) for one in known})
    return found or _off_the_common_place(known) or _behind_in_steps(known)


def _stopped(ranks: Sequence[Mapping[str, Any]]) -> Sequence[Fault]:
    stopped = [Fault(one["rank"], "its process is stopped by a signal") for one in ranks if one["state"] == _STOPPED]
    return stopped + [Fault(one["rank"], "its process has ended") for one in ranks if one["state"] in ("", *_ENDED)]


def _alone(rank: Mapping[str, Any]) -> Hang:
    """What one rank did, with all of its process groups."""
    entered = {group: told["number"] for group, told in rank["collectives"].items()}
    return Hang(bool(_stopped([rank])), entered, waits(rank["stacks"]))


def _off_the_common_place(ranks: Sequence[Mapping[str, Any]]) -> Sequence[Fault]:
    places = {one["rank"]: place(one["stacks"]) for one in ranks}
    (most, count), *_ = Counter(places.values()).most_common(1) or [("", 0)]
    if not most or 2 * count <= len(ranks):
        return []
    text = f"{count} of {len(ranks)} ranks are in {most}"
    return [Fault(rank, text) for rank, where in places.items() if where and where != most]


def _behind_in_steps(ranks: Sequence[Mapping[str, Any]]) -> Sequence[Fault]:
    steps = {one["rank"]: one["step"] for one in ranks if one["step"] is not None}
    last = min(steps.values(), default=0)
    text = f"it has done {last} steps, and others {max(steps.values(), default=0)}"
    return [Fault(rank, text) for rank, step in steps.items() if step == last] if len(set(steps.values())) > 1 else []


def words(ranks: Iterable[Mapping[str, Any]]) -> str:
    """Which rank is at fault, and where it is, to follow the words of a hang; empty if nothing is known."""
    known = list(ranks)
    places = {one["rank"]: place(one["stacks"]) for one in known}
    found = suspects(known)
    if found:
        first, others = found[0], [str(one.rank) for one in found[1:]]
        at = f" in {places[first.rank]}" if places[first.rank] else ""
        more = f", as rank {', '.join(others)}" if others else ""
        return f"; rank {first.rank} is at fault{at}: {first.why}{more}"
    where = next((text for text in places.values() if text), "")
    return f"; a rank was in {where}" if where else ""


def has_cause(ranks: Iterable[Mapping[str, Any]]) -> bool:
    """True if a training on several nodes hangs because of one of these ranks of a node, as far as they know.

    A rank is stopped or has ended, or does not wait for other ranks. A rank that uses NCCL may wait for a GPU in any
    function, so its stack says nothing.
    """
    known = list(ranks)
    without = [one for one in known if not any(group.startswith("nccl") for group in one["collectives"])]
    return bool(_stopped(known)) or any(waits(one["stacks"]) is False for one in without)


def facts(ranks: Iterable[Mapping[str, Any]]) -> Hang:
    """What the ranks of one node did, for the operator, which compares nodes.

    Whether one is stopped or has ended; the fewest collectives of each process group that has all ranks of the
    training, which has the number 0; whether all wait for other ranks, None if that is not known.
    """
    known = list(ranks)
    entered: dict[str, int] = {}
    for one in known:
        for group, told in one["collectives"].items():
            if group.endswith(" 0"):
                entered[group] = min(told["number"], entered.get(group, told["number"]))
    waiting = {waits(one["stacks"]) for one in known}
    all_wait = False if False in waiting else None if None in waiting or not waiting else True
    told = dict(sorted((group[:GROUP_NAME], number) for group, number in entered.items())[:MOST_GROUPS])
    return Hang(bool(_stopped(known)), told, all_wait)


def by_stacks(ranks: Iterable[Mapping[str, Any]]) -> list[tuple[list[int], str]]:
    """Each stack once, with the ranks that have it. The numbers of threads, which differ, do not count."""
    found: dict[str, tuple[list[int], str]] = {}
    for one in ranks:
        if one["stacks"]:
            same = re.sub(r"0x[0-9a-f]+", "", one["stacks"])
            found.setdefault(same, ([], one["stacks"].rstrip()))[0].append(one["rank"])
    return list(found.values())
