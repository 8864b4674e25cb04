"""`holdfast evidence`: what the ranks of a training that hung were doing, and which of them is at fault."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from holdfast_cli.checkpoints.on_storage import Opened, on_storage
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.fitted_table import Column, Fitting
from holdfast_train.pod import evidence as stored
from holdfast_train.pod.launcher.hang.blame import by_stacks, place, suspects

COLUMNS = (
    Column("RANK", right=True),
    Column("NODE", rank=2, right=True),
    Column("STEP", rank=1, right=True),
    Column("COLLECTIVES", rank=3),
    Column("WHERE"),
    Column("AT FAULT", loose=True),
)


@on_storage
def evidence(
    at: Opened, attempt: Annotated[int | None, typer.Option(min=1, help="Default: the last one that hung.")] = None
) -> None:
    """Show what the ranks of a training that hung were doing.

    First a table of the ranks: the last step, how many collectives of each process group a rank had entered, where its
    main thread was, and why it is at fault, if that is known. Then the stacks of all threads, stacks that several ranks
    have in common once; what py-spy and NCCL told, if they did; and the last lines of each node.

    \b
    Examples:
      holdfast evidence vit-faces -n vision
      holdfast evidence s3://runs/vision/vit-faces --attempt 3
      holdfast evidence file:///mnt/vision/vit-faces -o json | jq '.suspects'
    """
    try:
        _answer(at, attempt)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CliError(
            f"the evidence below {at.storage.uri} has a form that this version cannot show: {type(error).__name__}",
            hint=f"the training wrote it; the files are below {at.storage.uri}/evidence",
        ) from error


def _answer(at: Opened, attempt: int | None) -> None:
    documents = stored.read(at.storage, attempt)
    if not documents:
        which = "no attempt left" if attempt is None else f"attempt {attempt} left no"
        raise CliError(
            f"{which} evidence of a hang below {at.storage.uri}",
            code=ExitCode.NOT_FOUND,
            hint="the launcher writes it when a training stalls: docs/how-to/trainings-that-hang.md",
        )
    ranks = ranks_of(documents)
    faults = {one.rank: one.why for one in suspects(ranks)}
    data = {"suspects": [{"rank": rank, "why": why} for rank, why in faults.items()], "nodes": documents}
    at.answer(data, lambda out: show(out, documents, ranks, faults))


def ranks_of(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each rank did, with the number of its node."""
    return [{**rank, "node": one["node"]} for one in documents for rank in one["ranks"]]


def show(out: Console, documents: list[dict[str, Any]], ranks: list[dict[str, Any]], faults: dict[int, str]) -> None:
    """Print it for people."""
    for one in documents:
        out.print(Text(f"attempt {one['attempt']}, node {one['node']}, {one['at']}: {one['why']}"), soft_wrap=True)
    out.print()
    out.print(Fitting(COLUMNS, [row(one, faults) for one in sorted(ranks, key=lambda one: int(one["rank"]))]))
    for members, stacks in by_stacks(ranks):
        title = "rank" if len(members) == 1 else "ranks"
        out.print()
        out.print(Text(f"{title} {', '.join(map(str, members))}", style="bold"), soft_wrap=True)
        out.print(Text(stacks), soft_wrap=True)
    for rank in ranks:
        _block(out, f"rank {rank['rank']}, with native frames", rank.get("native", ""))
    for one in documents:
        _block(out, f"what NCCL says on node {one['node']}", one.get("nccl", ""))
        _block(out, f"last lines of node {one['node']}", "\n".join(one["lastLines"]))


def _block(out: Console, title: str, text: str) -> None:
    if text:
        out.print()
        out.print(Text(title, style="bold"))
        out.print(Text(text), soft_wrap=True)


def row(one: dict[str, Any], faults: dict[int, str]) -> list[Text]:
    """The cells of COLUMNS for one rank."""
    entered = ", ".join(f"{group}: {found['number']}" for group, found in sorted(one["collectives"].items()))
    return [
        Text(str(one["rank"])),
        Text(str(one["node"])),
        Text(formats.count(one["step"])),
        Text(entered or formats.NOTHING),
        Text(place(one["stacks"]) or formats.NOTHING),
        Text(faults.get(one["rank"], ""), style="red"),
    ]
