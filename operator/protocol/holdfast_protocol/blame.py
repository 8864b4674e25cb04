"""Which ranks of a training that hangs are at fault. The launcher says it, and `holdfast evidence`.

All ranks stand still, because each step waits for all of them. The rank at fault is the one for which the others wait.
The module `hang` compares nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from .hang import GROUP_NAME, MOST_GROUPS, Hang

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


class Suspect(NamedTuple):
    """A rank that is at fault, and how that is known."""

    rank: int
    why: str


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


def suspects(ranks: Iterable[Mapping[str, Any]]) -> list[Suspect]:
    """The ranks at fault, by the first of these rules that separates some ranks from the others; empty if none does.

    A process is stopped, or has ended. A rank has entered fewer collectives of a process group than another one. A rank
    does not wait for others, while another one does. A rank is at another place than most. A rank has done fewer steps.
    `ranks`: as the launcher gathers them, also those of several nodes.
    """
    known = sorted(ranks, key=lambda one: one["rank"])
    for rule in (_stopped, _behind_in_a_group, _elsewhere, _off_the_common_place, _behind_in_steps):
        found = rule(known)
        if 0 < len(found) < len(known):
            return found
    return []


def _stopped(ranks: Sequence[Mapping[str, Any]]) -> list[Suspect]:
    stopped = [Suspect(one["rank"], "its process is stopped by a signal") for one in ranks if one["state"] == _STOPPED]
    return stopped + [Suspect(one["rank"], "its process has ended") for one in ranks if one["state"] in ("", *_ENDED)]


def _behind_in_a_group(ranks: Sequence[Mapping[str, Any]]) -> list[Suspect]:
    """Of the groups in which numbers differ, the one with the fewest ranks behind tells most."""
    groups = sorted({name for one in ranks for name in one["collectives"]})
    found = []
    for group in groups:
        numbers = {one["rank"]: one["collectives"][group]["number"] for one in ranks if group in one["collectives"]}
        most = max(numbers.values())
        text = f"it has entered {{}} collectives of process group {group}, and others {most}"
        behind = [Suspect(rank, text.format(number)) for rank, number in numbers.items() if number < most]
        least = [one for one in behind if numbers[one.rank] == min(numbers.values())]
        if least:
            found.append(least)
    return min(found, key=len, default=[])


def _elsewhere(ranks: Sequence[Mapping[str, Any]]) -> list[Suspect]:
    waiting = {one["rank"]: waits(one["stacks"]) for one in ranks}
    if True not in waiting.values():
        return []
    return [
        Suspect(rank, "it does not wait for other ranks, and others do")
        for rank, is_so in waiting.items()
        if is_so is False
    ]


def _off_the_common_place(ranks: Sequence[Mapping[str, Any]]) -> list[Suspect]:
    places = {one["rank"]: place(one["stacks"]) for one in ranks}
    (most, count), *_ = Counter(places.values()).most_common(1) or [("", 0)]
    if not most or 2 * count <= len(ranks):
        return []
    text = f"{count} of {len(ranks)} ranks are in {most}"
    return [Suspect(rank, text) for rank, where in places.items() if where and where != most]


def _behind_in_steps(ranks: Sequence[Mapping[str, Any]]) -> list[Suspect]:
    steps = {one["rank"]: one["step"] for one in ranks if one["step"] is not None}
    last = min(steps.values(), default=0)
    text = f"it has done {last} steps, and others {max(steps.values(), default=0)}"
    return [Suspect(rank, text) for rank, step in steps.items() if step == last] if len(set(steps.values())) > 1 else []


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
