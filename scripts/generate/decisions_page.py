"""The decisions as a page for people: the transition table, the rules of loss and failure, the notices."""

from collections.abc import Iterable, Sequence
from inspect import getdoc

from holdfast.api.scalars import format_duration
from holdfast.core.attempt import why_ended
from holdfast.core.observe import notices
from holdfast.core.row import Row
from holdfast.core.table import SUCCESSOR_TABLE, TABLE

_HEAD = """\
# What Holdfast decides, and why

A decision is made from what is seen now: the job's status, its pods, their nodes, the trainer's reports. It never
depends on which event arrived. The code of this page is `operator/holdfast/core`.

## What a job does next

Rows are tried from the top; the first row that fits fires, and they are tried again until none fits. *State* is where
the current attempt stands, *seen* is what is seen of its pod. In the other columns, "it" is the current attempt.
"""

_SUCCESSOR = """\
## The attempt that comes up beside it

A program that holds the storage fence can be followed before it ends: the next attempt's pod is made while the current
one trains, loads its program, and waits at the fence. These rows are tried when none above fits; *state*, *seen* and
"it" are the successor's. If the successor is given up, the current attempt trains on.
"""

_ENDS = """\
## Why an attempt ended

The first rule that answers decides. Losses and stops never count against the user; failures count against
`spec.failure.maxFailures`; an attempt that is misconfigured or completed ends the job.
"""

_NOTICES = """\
## What counts as a notice

After a notice a pod has the time that the notice leaves, and never more than `spec.checkpoint.gracePeriod`.
`karpenter.sh/nodeclaim-termination-timestamp` on a node gives the exact time of its end. A pod that is being deleted,
a pod with the condition `DisruptionTarget`, a node that is being deleted and a node with the condition
`VMEventScheduled` are notices too. `aws-node-termination-handler/rebalance-recommendation` and
`DeletionCandidateOfClusterAutoscaler` are advice, and change nothing.
"""


def render() -> str:
    """The page as Markdown; the same for the same code."""
    head = ("row", "state", "seen", "if", "leads to")
    transitions, beside = (_table(head, map(_transition, table)) for table in (TABLE, SUCCESSOR_TABLE))
    rules = _table(("rule", "when"), ((_words(rule.__name__), _first_line(rule)) for rule in why_ended.RULES))
    taints = ((f"`{key}`", sign.reason, format_duration(sign.leaves)) for key, sign in notices.TAINTS.items())
    signs = _table(("taint", "reason", "leaves"), taints)
    return "\n".join((_HEAD, transitions, _SUCCESSOR, beside, _ENDS, rules, _NOTICES, signs))


def _transition(row: Row) -> tuple[str, ...]:
    states = ", ".join(state.value if state else "no attempt" for state in row.states) or "any"
    sights = ", ".join(row.sights) or "anything"
    return row.name, states, sights, row.guard or "always", row.then


def _words(name: str) -> str:
    return name.strip("_").replace("_", " ")


def _first_line(function: object) -> str:
    return (getdoc(function) or "").partition("\n")[0]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)
