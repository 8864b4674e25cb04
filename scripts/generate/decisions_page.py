"""The page docs/reference/decisions.md: the transition table, the rules of interruption and failure, the notices."""

from collections.abc import Iterable, Sequence
from inspect import getdoc

from holdfast.api.scalars import format_duration
from holdfast.core.attempt import why_ended
from holdfast.core.observe import notices
from holdfast.core.row import Row
from holdfast.core.table import SUCCESSOR_TABLE, TABLE

_HEAD = """\
# Decisions

This page lists every rule by which the operator acts. A decision depends on the state: the status of the job, its pods,
their nodes, and the reports of the trainer. It never depends on the event that arrived. The code is
`operator/holdfast/core`; [How a job moves](../concepts/moves.md) has the reasons.

## What a job does next

The operator tries the rows from the top. The first row that fits fires; then the operator tries again, until no row
fits. *State* is the state of the current attempt, *seen* is what the operator sees of its pod. In the other columns,
"it" is the current attempt.

With several nodes, *seen* is what the operator sees of the pod that stops all others, such as one whose node is gone.
While the attempt is Starting or Running, a pod that has ended or is silent does not hide the other pods: the rows for
what is seen of them are tried too.
"""

_SUCCESSOR = """\
## The successor

If the program holds the storage fence, the next attempt may start before the current one ends: its pod is created while
the current attempt trains, loads its program, and waits at the fence. The operator tries these rows when none above
fits; *state*, *seen* and "it" are the successor's. If the successor is given up, the current attempt trains on.
"""

_ENDS = """\
## Why an attempt ended

The first rule with an answer decides. Interruptions and stops never count against the user; failures count against
`spec.failure.maxFailures`; a completed attempt ends the job, and so does a misconfigured one of a job that has never
run. A job that has run pauses until a person corrects it ([A job that needs a
correction](../how-to/debug.md#a-job-that-needs-a-correction)). These reasons may pass by themselves, so four attempts
in a row count as interruptions before: `StorageDenied`, `StorageNotFound`, `StorageUntrusted`,
`StorageProxyFailed`, `DataInvalid`, `CommandNotFound`, `CommandNotExecutable`, `PythonIncomplete`.

Where a signal ended the program and nothing says who sent it, the decision waits two seconds for the final phase of the
pod: a kubelet that evicts a pod for what it uses says so only then.
"""

_NOTICES = """\
## What counts as a notice

A pod that has to leave gets the time that its notice leaves, but at most `spec.checkpoint.gracePeriod`. The annotation
`karpenter.sh/nodeclaim-termination-timestamp` gives the exact time. Karpenter writes it on the NodeClaim of a node, if
that has a `terminationGracePeriod`; the operator reads it there if it may (`nodeClaims` of the chart), and on the Node.
Of a Spot node with a NodeClaim the earlier time counts: the cloud does not wait. These are notices too: a pod that is
being deleted, a pod with the condition `DisruptionTarget`, a node that is being deleted, and a node with the condition
`VMEventScheduled`. `aws-node-termination-handler/rebalance-recommendation` and `DeletionCandidateOfClusterAutoscaler`
are advice, and change nothing.
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
