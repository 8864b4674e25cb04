"""`holdfast demo`."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from holdfast.cli.demo import summary
from holdfast.cli.demo.bucket import commit_log
from holdfast.cli.demo.play import Played, play
from holdfast.cli.demo.stage import NAMESPACE, Stage, apply_job, check_trainer, example, job_manifest, stage
from holdfast.cli.demo.stories import GANG, ONE_NODE
from holdfast.cli.demo.verify import Check, checks, resumes
from holdfast.cli.errors import ExitCode
from holdfast.cli.terminal.console import console
from holdfast.local.progress_bar import ConsoleReport

PICTURE_WIDTH = 128  # as `kubectl get tj` needs


def demo(
    *,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Leave cluster and operator running at the end, with a Prometheus that scraped them all the time.",
        ),
    ] = False,
    save_screen: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the last screen and the tables into an SVG file.")
    ] = None,
    gang: Annotated[bool, typer.Option("--gang", help="Train on four nodes and lose two of them.")] = False,
    job: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this TrainingJob instead of the one in examples/.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which the demo gives up.")] = 900,
) -> None:
    """Watch a training lose three nodes and finish.

    Starts a real Kubernetes control plane on this machine, with two spot nodes, a dedicated node and a CPU node, and
    the operator with its own rights. Trains a small language model with a deadline, and takes its nodes away one by
    one. Checks that every resume was at the saved step, and prints the savings against dedicated nodes only. Removes
    everything at the end. With --gang the cluster has six spot nodes, and the model trains on four of them at once.
    """
    out = console()
    report = ConsoleReport(out)
    check_trainer()
    story = GANG if gang else ONE_NODE
    file = job or example(story.example)
    with interruptible(), stage(report, story.nodes, keep=keep) as made:
        manifest = job_manifest(file, made.cluster.s3, datetime.now(UTC))
        apply_job(made.cluster, manifest)
        played = asyncio.run(play(made, story, manifest["metadata"]["name"], out, seconds=timeout))
        found = judge(made, manifest, played)
        ending = epilogue(made, played, found)
    out.print(ending)
    if save_screen:
        save(save_screen, Group(played.last_screen, ending))
        out.print(f"wrote {save_screen}", markup=False)
    if not all(check.passed for check in found):
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and a closed terminal end the demo as Ctrl-C does: everything is removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def judge(made: Stage, manifest: dict[str, Any], played: Played) -> list[Check]:
    """Check every claim of the demo against the status and the bucket."""
    prefix = manifest["spec"]["checkpoint"]["storage"]["s3"]["prefix"]
    listed = made.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
    return checks(played.job, commit_log(made.cluster.s3, prefix), played.script, listed.split())


def epilogue(made: Stage, played: Played, found: Sequence[Check]) -> RenderableType:
    """The tables, the output of `kubectl get tj`, and the checks."""
    listing = made.cluster.kubectl("-n", NAMESPACE, "get", "tj").rstrip()
    took = summary.took(played.job, datetime.now(UTC))
    return Group(
        Text(),
        summary.attempts(played.job),
        summary.bars(played.job),
        summary.moves(played.book.moves(resumes(played.job))),
        summary.money(played.job),
        Text(f"$ kubectl -n {NAMESPACE} get tj", style="dim"),
        Text(listing),
        Text(),
        summary.verdict(found),
        Text(f"from apply to the end: {took}", style="dim"),
    )


def save(file: Path, picture: RenderableType) -> None:
    """Write the screen as an SVG file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        paper = Console(record=True, width=PICTURE_WIDTH, file=nowhere, force_terminal=True, highlight=False)
        paper.print(picture)
        file.write_text(paper.export_svg(title="make demo"), encoding="utf-8")
