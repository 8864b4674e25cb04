"""Attempts: what each trained and why it ended, in the program's own last words, and the evidence of hangs."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from rich.text import Text

from holdfast.api.attempt import AttemptRecord, EndKind
from holdfast_cli import evidence
from holdfast_cli.jobs import view
from holdfast_cli.jobs.describe import totals
from holdfast_cli.pages import stored_job
from holdfast_cli.pages.fragments import block, html, section, simple_table, table
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.terminal import formats
from holdfast_model.pages.fragments import folded
from holdfast_protocol.blame import by_stacks, suspects

MOST_TEXT: Final = 6000  # characters of one block of stacks or of last lines
MOST_STACKS: Final = 8  # different stacks of one attempt


def attempts(inputs: JobInputs) -> str:
    """A table of all attempts, and why they ended."""
    if inputs.job is None:
        return section("Attempts", table(stored_job.attempts_table(inputs)))
    if not inputs.job.status.attempt:
        return ""
    job = inputs.job
    rows = simple_table(view.ATTEMPT_COLUMNS, view.attempt_rows(job, inputs.now))
    ends = [record for record in job.status.history if record.message and record.kind is not EndKind.COMPLETED]
    said = f"<h3>Why attempts ended</h3>{''.join(map(_end, ends))}" if ends else ""
    return section("Attempts", rows, f"<p>{html(totals(job))}.</p>", said)


def _end(record: AttemptRecord) -> str:
    """The reason in a line; the lines of a failed program in a block."""
    guess = " (estimated: the end was not observed)" if record.estimated else ""
    first, _, rest = record.message.partition("\n")
    line = f"{formats.moment(record.ended_at)}, {record.reason}{guess}: {first}"
    style = "red" if record.kind in (EndKind.FAILURE, EndKind.MISCONFIGURED) else ""
    number = Text(f"attempt {record.number}", f"bold {style}".strip())
    return f"<p>{html(number)} {html(line)}</p>{block(rest, MOST_TEXT) if rest else ''}"


def hangs(inputs: JobInputs) -> str:
    """What the ranks did in each attempt that hung, and which of them is at fault."""
    found = sorted(inputs.evidence or (), key=lambda one: int(one["attempt"]))
    groups = groupby(found, key=lambda one: int(one["attempt"]))
    return section("Trainings that hung", *(_hang(number, list(documents)) for number, documents in groups))


def is_readable(*documents: Mapping[str, Any]) -> bool:
    """True if documents of one attempt have what a page shows. Training pods wrote them, so they may be anything."""
    try:
        return bool(_hang(int(documents[0]["attempt"]), documents))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return False


def _hang(number: int, documents: Sequence[Mapping[str, Any]]) -> str:
    ranks = evidence.ranks_of(documents)
    faults = {one.rank: one.why for one in suspects(ranks)}
    whys = "".join(f"<p>{html(f'''node {one['node']}, {one['at']}: {one['why']}''')}</p>" for one in documents)
    rows = [evidence.row(one, faults) for one in sorted(ranks, key=lambda one: int(one["rank"]))]
    blocks = []
    for members, stacks in list(by_stacks(ranks))[:MOST_STACKS]:
        title = f"{'rank' if len(members) == 1 else 'ranks'} {', '.join(map(str, members))}: stacks"
        blocks.append(folded(title, block(stacks, MOST_TEXT)))
    for one in documents[:MOST_STACKS]:
        if lines := "\n".join(one["lastLines"]):
            blocks.append(folded(f"last lines of node {one['node']}", block(lines, MOST_TEXT)))
    return f"<h3>Attempt {number}</h3>{whys}{simple_table(evidence.COLUMNS, rows)}{''.join(blocks)}"
