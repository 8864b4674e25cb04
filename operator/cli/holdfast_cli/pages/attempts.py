"""Attempts: what each trained and why it ended, in the program's own last words, and the evidence of hangs."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from rich.text import Text

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast_cli import evidence
from holdfast_cli.jobs import view
from holdfast_cli.jobs.describe import totals
from holdfast_cli.pages import stored_job
from holdfast_cli.pages.fragments import cut, simple_table, styled, table
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.terminal import formats
from holdfast_model.pages.fragments import Table
from holdfast_model.pages.template import Markup, Template
from holdfast_train.pod.launcher.hang.blame import by_stacks, suspects

MOST_TEXT: Final = 6000  # characters of one block of stacks or of last lines
MOST_STACKS: Final = 8  # different stacks of one attempt
_HTML: Final = Template(__name__)


class _End(NamedTuple):
    """The reason in a line; the other lines of a failed program."""

    attempt: str
    line: str
    rest: str


def attempts(inputs: JobInputs) -> Markup:
    """A table of all attempts, and why they ended."""
    if inputs.job is None:
        return _HTML.attempts(found=table(stored_job.attempts_table(inputs)), totals="", ends=())
    if not inputs.job.status.attempt:
        return Markup()
    job = inputs.job
    rows = simple_table(view.ATTEMPT_COLUMNS, view.attempt_rows(job, inputs.now))
    ends = [record for record in job.status.history if record.message and record.kind is not EndKind.COMPLETED]
    return _HTML.attempts(found=rows, totals=totals(job, inputs.now), ends=list(map(_end, ends)))


def _end(record: AttemptRecord) -> _End:
    guess = " (estimated: the end was not observed)" if record.estimated else ""
    first, _, rest = record.message.partition("\n")
    line = f"{formats.moment(record.ended_at)}, {record.reason}{guess}: {first}"
    style = "red" if record.kind in (EndKind.FAILURE, EndKind.MISCONFIGURED) else ""
    return _End(styled(Text(f"attempt {record.number}", f"bold {style}".strip())), line, cut(rest, MOST_TEXT))


class _Hang(NamedTuple):
    """What the ranks of one attempt did. `blocks`: titles and texts that a reader opens."""

    number: int
    whys: Sequence[str]
    ranks: Table
    blocks: Sequence[tuple[str, str]]


def hangs(inputs: JobInputs) -> Markup:
    """What the ranks did in each attempt that hung, and which of them is at fault."""
    found = sorted(inputs.evidence or (), key=lambda one: int(one["attempt"]))
    groups = groupby(found, key=lambda one: int(one["attempt"]))
    return _HTML.hangs([_hang(number, list(documents)) for number, documents in groups])


def is_readable(*documents: Mapping[str, Any]) -> bool:
    """True if documents of one attempt have what a page shows. Training pods wrote them, so they may be anything."""
    try:
        return bool(_hang(int(documents[0]["attempt"]), documents))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return False


def _hang(number: int, documents: Sequence[Mapping[str, Any]]) -> _Hang:
    ranks = evidence.ranks_of(documents)
    faults = {one.rank: one.why for one in suspects(ranks)}
    whys = [f"node {one['node']}, {one['at']}: {one['why']}" for one in documents]
    rows = [evidence.row(one, faults) for one in sorted(ranks, key=lambda one: int(one["rank"]))]
    blocks = []
    for members, stacks in list(by_stacks(ranks))[:MOST_STACKS]:
        title = f"{'rank' if len(members) == 1 else 'ranks'} {', '.join(map(str, members))}: stacks"
        blocks.append((title, cut(stacks, MOST_TEXT)))
    for one in documents[:MOST_STACKS]:
        if lines := "\n".join(one["lastLines"]):
            blocks.append((f"last lines of node {one['node']}", cut(lines, MOST_TEXT)))
    return _Hang(number, whys, simple_table(evidence.COLUMNS, rows), blocks)
