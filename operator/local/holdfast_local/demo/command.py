"""`holdfast demo`."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from holdfast_cli.errors import ExitCode
from holdfast_cli.terminal.console import console
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_local.demo import summary
from holdfast_local.demo.bucket import commit_log
from holdfast_local.demo.play import Played, play
from holdfast_local.demo.results import results
from holdfast_local.demo.shell import Shell, variables
from holdfast_local.demo.stage import (
    NAMESPACE,
    Stage,
    apply_job,
    apply_surroundings,
    check_trainer,
    example,
    job_manifest,
    stage,
)  # fmt: skip
from holdfast_local.demo.stories import GANG, ONE_NODE, PACKAGED, Story
from holdfast_local.demo.verify import Check, checks, resumes
from holdfast_local.demo.whole import Whole, check_packaging, left_behind
from holdfast_local.progress_bar import ConsoleReport

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
    package: Annotated[
        bool, typer.Option("--package", help="Plan, train with one lost node, package the model and evaluate it.")
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where --package leaves its results. Default: a new temporary folder."),
    ] = None,
    job: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this TrainingJob instead of the one in examples/.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which the demo gives up the training.")] = 900,
) -> None:
    """Watch a training lose three nodes and finish.

    Starts a real Kubernetes control plane on this machine, with two spot nodes, a dedicated node and a CPU node, and
    the operator with its own rights. Trains a small language model with a deadline, and takes its nodes away one by
    one. Checks that every resume was at the saved step, and prints the savings against dedicated nodes only. Removes
    everything at the end. With --gang the cluster has six spot nodes, and the model trains on four of them at once.

    With --package it goes from end to end with a small vision transformer, and shows each command: measure a step,
    plan, train and lose a node, package the model, evaluate it on new data. The package and the pages stay.
    """
    if package and (gang or job):
        raise typer.BadParameter("it has a job of its own: leave out --gang and --job", param_hint="--package")
    if into and not package:
        raise typer.BadParameter("only --package leaves results", param_hint="--into")
    out = console()
    check_trainer()
    if package:
        check_packaging()
    story = GANG if gang else PACKAGED if package else ONE_NODE
    with (
        interruptible(),
        results(into) if package else nullcontext() as folder,
        stage(ConsoleReport(out), story.nodes, keep=keep) as made,
    ):
        manifest = job_manifest(job or example(story.example), made.cluster.s3, datetime.now(UTC))
        picture, found = perform(made, story, manifest, out, folder=folder, seconds=timeout)
    ending = Group(Text(), summary.verdict(found), *(left_behind(folder) if folder else ()))
    out.print(ending, soft_wrap=True)
    if save_screen:
        save(save_screen, Group(picture, ending))
        out.print(f"wrote {save_screen}", markup=False)
    if not all(check.passed for check in found):
        raise typer.Exit(ExitCode.FAILED)


def perform(
    made: Stage, story: Story, manifest: dict[str, Any], out: Console, *, folder: Path | None, seconds: float
) -> tuple[RenderableType, list[Check]]:
    """Train, with all acts around it if their results go into `folder`. Return what was shown, and what was checked.

    Raises DemoError, LocalError, CliError.
    """
    apply_surroundings(made.cluster)
    shell = Shell(out, folder, variables(made.cluster, out.width)) if folder else None
    whole = Whole(shell, manifest) if shell else None
    if whole:
        whole.before()
        whole.begin_training()
    else:
        apply_job(made.cluster, manifest)
    before = [*shell.said] if shell else []
    played = asyncio.run(play(made, story, manifest["metadata"]["name"], out, seconds=seconds))
    found, tables = judge(made, manifest, played), epilogue(made, played)
    out.print(tables)
    if whole:
        found += whole.after(played.job)
    after = shell.said[len(before) :] if shell else []
    return Group(*before, played.last_screen, tables, *after), found


def judge(made: Stage, manifest: dict[str, Any], played: Played) -> list[Check]:
    """Check every claim of the demo against the status and the bucket."""
    prefix = manifest["spec"]["checkpoint"]["storage"]["s3"]["prefix"]
    listed = made.cluster.kubectl("-n", NAMESPACE, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
    return checks(played.job, commit_log(made.cluster.s3, prefix), played.script, listed.split())


def epilogue(made: Stage, played: Played) -> RenderableType:
    """The tables, and the output of `kubectl get tj`."""
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
        Text(f"from apply to the end: {took}", style="dim"),
    )


def save(file: Path, picture: RenderableType) -> None:
    """Write the screen as an SVG file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        paper = Console(record=True, width=PICTURE_WIDTH, file=nowhere, force_terminal=True, highlight=False)
        paper.print(picture)
        file.write_text(paper.export_svg(title="make demo"), encoding="utf-8")
