"""`record`: what is known of a hang goes into the log and the storage. Then its ranks are killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast_protocol import variables
from holdfast_protocol.hang import Hang
from holdfast_protocol.rank_verdict import RankVerdict

from ..process_tree import descendants
from ..stall_watch import read_pulses
from ..verdict_files import read_rank_verdicts, say
from .blame import by_stacks, facts, has_cause, words
from .gather import gather, look
from .keep import keep
from .native import native_stacks
from .nccl import ras_status
from .plain_ranks import end_with_stacks, plain_ranks

LINES = 60  # of the program's output
OTHERS_SECONDS = 10.0  # for the launchers of the other nodes to gather too: the end of one rank ends the others


def waits_for_other_nodes(folder: str | None, others: Collection[int] = ()) -> bool:
    """True if no rank of this node is known to be why the training takes no step. The ranks go on."""
    return not has_cause(look(folder or "", _running(folder, others), {}))


def _running(folder: str | None, others: Collection[int]) -> list[RankVerdict]:
    alive = set(descendants(os.getpid(), others))
    return [one for one in read_rank_verdicts(folder) if one.result == "running" and one.pid in alive]


def record(
    folder: str | None,
    how: str,
    printed: Callable[[], Sequence[str]],
    environment: Mapping[str, str],
    others: Collection[int] = (),
) -> tuple[str, Hang]:
    """Record a program that hangs, `how` in words, and kill its ranks.

    Returns where the hang is, to follow `how`, and what the operator compares with the other nodes.

    `printed`: the lines that it has printed last. `others`: children of this process that belong to no program.
    """
    known = _running(folder, others)
    running = known or plain_ranks(others)
    pulses = read_pulses(folder or "")
    steps = {rank: one.step for rank, one in pulses.items()}
    is_alone = not variables.has_several_nodes(environment)
    # Before `gather`, which stops the ranks: NCCL and py-spy learn nothing of a stopped process.
    report, stacks = ras_status(environment), native_stacks(running, environment)
    lines = printed()
    if known:
        ranks = gather(folder or "", known, steps, 0.0 if is_alone else OTHERS_SECONDS)
    else:
        ranks = end_with_stacks(running, steps, printed, others)
    where = words(ranks)
    say(f"{how}{where}: the program is ended; what the threads of its ranks do, as Python says it:")
    for members, text in by_stacks(ranks):
        say(f"rank {', '.join(map(str, members))}:\n{text}")
    document = {
        "v": 1,
        "node": int(environment.get(variables.RANK) or 0),
        "pod": environment.get(variables.POD_NAME, ""),
        "why": how,
        "ranks": [{**one, "native": stacks.get(one["rank"], "")} for one in ranks],
        "nccl": report,
        "lastLines": list(lines)[-LINES:],
    }
    keep(document, next((one.python for one in known if one.python), ""), environment)
    for one in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one.pid, signal.SIGKILL)
    return where, facts(ranks)
