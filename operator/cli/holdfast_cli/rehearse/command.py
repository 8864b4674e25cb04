"""`holdfast rehearse`: interrupt a program on this machine, or a job on a tier, and compare with an undisturbed run."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from holdfast.api.errors import ExitCode
from holdfast.api.job import Progress
from holdfast.api.problems import what_is_allowed
from holdfast_cli.check.manifests import manifest_files
from holdfast_cli.cluster.options import Kubeconfig, Namespace
from holdfast_cli.errors import CliError
from holdfast_cli.rehearse import screen
from holdfast_cli.rehearse.as_json import as_json
from holdfast_cli.rehearse.asked import Asked
from holdfast_cli.rehearse.cluster.on_tier import Typed, rehearse_on_tier
from holdfast_cli.rehearse.left import Interruption
from holdfast_cli.rehearse.local_stage import LocalStage
from holdfast_cli.rehearse.place import made_place
from holdfast_cli.rehearse.program import Program
from holdfast_cli.rehearse.rehearsal import Rehearsed, carry_out
from holdfast_cli.rehearse.reports import Reports
from holdfast_cli.storage.options import Endpoint
from holdfast_cli.terminal.console import console, error_console
from holdfast_cli.terminal.interruptible import interruptible
from holdfast_cli.terminal.output import Output, write
from holdfast_cli.terminal.parsing import duration


def rehearse(
    command: Annotated[
        list[str] | None, typer.Argument(help="The program and its arguments, after --.", show_default=False)
    ] = None,
    *,
    filename: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="The job to rehearse on a tier, in YAML or JSON.",
            show_default=False,
        ),
    ] = None,
    tier: Annotated[
        str | None, typer.Option(help="With -f: the tier to use. Default: the job's first.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the program writes its saves: checkpoint.folder of a job. Without it the program uses Run.",
            show_default=False,
        ),
    ] = None,
    progress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="One of progress.patterns, if the program prints its steps.", show_default=False
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="One of checkpoint.exclude: what is not saved.", show_default=False),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="checkpoint.pattern: which paths are saves.", show_default=False),
    ] = None,
    only: Annotated[
        list[Interruption] | None,
        typer.Option("--with", help="Only this interruption. Repeatable. Default: all four.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=2, help="goal.steps, for a program with Run.", show_default=False)
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(min=1, help="For a program with Run: save every so many steps.", show_default=False),
    ] = None,
    grace: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time from a notice to the end.", show_default="30s")
    ] = None,
    quiet: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="A save without a write for so long is committed; in a job 2s.",
            show_default="2s",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long one run may take.")] = "1h",
    acquire_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="With -f: how long the tier may give no node.", show_default="2m"),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Files that are not compared, such as *.log.", show_default=False),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="A relative difference that counts as equal.", show_default=False),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep what the runs leave in this new folder; with -f also the jobs and what they stored.",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    endpoint: Endpoint = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = None,
) -> None:
    """Interrupt a program on this machine, or a job on a tier, and compare it with an undisturbed run.

    The program runs from its start to its end. Then it runs again and is interrupted four times: a notice, a crash, a
    crash while it saves, and a lost node. Each time Holdfast puts its folder back, and it is started again, as in a
    job. In the end losses, files and the tensors in them are compared. If something differs, the program runs once
    more undisturbed: what differs then too comes from the program itself.

    Let the program train for a minute or so, and save at least six times. It gets the same command each time, and must
    find its newest save itself, or through HOLDFAST_NEWEST_CHECKPOINT. Nothing leaves this machine.

    With -f the job of a file runs in place of a command, on one tier of the cluster, as jobs of their own that store
    below rehearsals/ of the job's prefix. They are deleted in the end.

    \b
    Examples:
      holdfast rehearse --folder out -- python train.py --output_dir out --max_steps 60 --save_steps 10
      holdfast rehearse --folder out --progress 'step {step}: loss {loss}' -- python train.py
      holdfast rehearse --steps 100 --every 20 -- python train_with_run.py
      holdfast rehearse --with crash --tolerance 1e-5 -o json --folder out -- ./train.sh
      holdfast rehearse -f job.yaml --tier spot
    """
    asked = Asked(tuple(dict.fromkeys(only or Interruption)), tuple(ignore or ()), tolerance)
    longest = duration("--timeout", timeout)
    of_command = {
        "--folder": folder, "--progress": progress, "--exclude": exclude, "--pattern": pattern, "--grace": grace,
        "--quiet": quiet,
    }  # fmt: skip
    of_job = {
        "--tier": tier, "--acquire-timeout": acquire_timeout, "--endpoint": endpoint, "--kubeconfig": kubeconfig,
        "--namespace": namespace,
    }  # fmt: skip
    if filename is not None:
        if command:
            raise typer.BadParameter("a command after -- and -f FILE exclude each other: give one of them")
        refuse(of_command, "only for a command; with -f the job of the file says it")
        typed = Typed(
            files=manifest_files((filename,), None),
            tier=tier,
            steps=steps,
            every=every,
            acquire=duration("--acquire-timeout", acquire_timeout or "2m"),
            longest=longest,
            keep=keep,
            has_chosen=bool(only),
            endpoint=endpoint,
            kubeconfig=kubeconfig,
            namespace=namespace,
        )
        done = rehearse_on_tier(asked, typed)
    else:
        if not command:
            raise typer.BadParameter("name a command after --, or a job with -f FILE")
        refuse(of_job, "only with -f FILE: a command runs on this machine")
        shortest = 1.0 if progress else 0.1  # the launcher reads the output once a second
        if (pause := duration("--quiet", quiet or "2s").total_seconds()) < shortest:
            what = "1s, because the program prints its steps" if progress else "100ms"
            raise typer.BadParameter(f"{quiet}: must be at least {what}", param_hint="--quiet")
        program = Program(
            command=tuple(command),
            folder=None if folder is None else folder.absolute(),
            patterns=checked_patterns(progress or ()),
            exclude=tuple(exclude or ()),
            pattern=pattern,
            grace=duration("--grace", grace or "30s").total_seconds(),
            quiet=pause,
            steps=steps,
            every=every,
            longest=longest.total_seconds(),
        )
        _check(program, has_steps=bool(steps or every), of_folder=bool(exclude or pattern))
        done = rehearse_here(asked, program, keep)
    if not write(output, as_json(done)):
        screen.show(console(), done)
    if not done.is_good:
        raise typer.Exit(ExitCode.FAILED)


def rehearse_here(asked: Asked, program: Program, keep: Path | None) -> Rehearsed:
    """Rehearse the program on this machine. CliError if it is not there, or cannot be rehearsed."""
    if shutil.which(program.command[0]) is None:
        raise CliError(
            f"{program.command[0]}: no such program", code=ExitCode.NOT_FOUND, hint="give its path, or set PATH"
        )
    with (
        interruptible(),
        made_place(program.folder, keep) as place,
        Reports() as reports,
        screen.live(error_console()) as tell,
        LocalStage(program, place, reports, tell) as stage,
    ):
        return carry_out(asked, stage)


def refuse(options: Mapping[str, Any], why: str) -> None:
    """BadParameter if one of the options was typed."""
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter(why, param_hint=option)


def _check(program: Program, *, has_steps: bool, of_folder: bool) -> None:
    """BadParameter if an option of one kind of program is given for the other kind."""
    if program.folder is not None and has_steps:
        raise typer.BadParameter("only for a program with Run, which has no --folder", param_hint="--steps, --every")
    if program.folder is None and (of_folder or program.patterns):
        raise typer.BadParameter("only with --folder", param_hint="--exclude, --pattern, --progress")


def checked_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns, if a job may have them. BadParameter says what is wrong."""
    try:
        return Progress(patterns=tuple(patterns)).patterns
    except ValidationError as error:
        raise typer.BadParameter(what_is_allowed(error.errors()[0]), param_hint="--progress") from error
