"""The `holdfast` command and the list of its commands."""

from typing import Annotated, Any, Final

import typer
from rich.text import Text

from holdfast.api.errors import HoldfastError, shown
from holdfast_cli import kubectl_plugin
from holdfast_cli.errors import CliError, ExitCode
from holdfast_cli.lazy_commands import LazyGroup, Place, Plugin
from holdfast_cli.terminal.console import error_console

LOCAL: Final = "pip install 'holdfast[local]'"
COMMANDS: Final[dict[str, Place | Plugin]] = {
    "run": Place(
        "holdfast_cli.run.command:run",
        "Send the folder of a program to the cluster, and train it there.",
        takes_command=True,
    ),
    "watch": Place(
        "holdfast_cli.jobs.watch:watch",
        "Show jobs live: phase, tier, node, step, loss, ETA, attempts and events.",
    ),
    "list": Place(
        "holdfast_cli.jobs.watch:list_jobs",
        "Show all jobs once: phase, tier, node, step, loss, ETA and attempts.",
    ),
    "describe": Place(
        "holdfast_cli.jobs.describe:describe",
        "Show the state of a job, its reason, its past, and what happens next.",
    ),
    "why": Place(
        "holdfast_cli.why.command:why",
        "Show why a job is on its tier, with every figure behind it.",
    ),
    "cancel": Place(
        "holdfast_cli.jobs.cancel:cancel",
        "End a job and delete it; its checkpoints stay.",
    ),
    "checkpoint": Place("holdfast_cli.jobs.request:checkpoint", "Save a checkpoint now and print its step."),
    "checkpoints": Place(
        "holdfast_cli.checkpoints.app:app",
        "List, show, export, verify, compare, pin and prune checkpoints. Works on a job, or on a storage without a "
        "cluster.",
    ),
    "evidence": Place(
        "holdfast_cli.evidence:evidence",
        "Show what the ranks of a training that hung were doing.",
    ),
    "exec": Place(
        "holdfast_cli.exec.command:execute",
        "Run a command, or a shell, in the pod in which a job runs.",
    ),
    "logs": Place(
        "holdfast_cli.logs.command:logs",
        "Show what the program of a job wrote, over all attempts.",
    ),
    "move": Place("holdfast_cli.jobs.request:move", "Make a job save, leave its node, and continue on another one."),
    "nodes": Place("holdfast_cli.nodes:nodes", "Show nodes that new pods avoid, and why; forgive one."),
    "open": Place(
        "holdfast_cli.forward.command:open_port",
        "Open a port of the pod in which a job runs, such as TensorBoard, on this machine.",
    ),
    "package": Place(
        "holdfast_cli.packages.command:package",
        "Make a tested package of a job's model, in a job of its own.",
    ),
    "report": Place(
        "holdfast_cli.report.command:report",
        "Write a job, or a comparison of several, as one HTML file.",
    ),
    "resume": Place("holdfast_cli.jobs.request:resume", "Make a suspended job continue from its newest checkpoint."),
    "rollback": Place(
        "holdfast_cli.checkpoints.branch.rollback_command:rollback",
        "Make a job continue from an earlier checkpoint.",
    ),
    "suspend": Place(
        "holdfast_cli.jobs.request:suspend",
        "Make a job save and give its nodes back, until it is resumed.",
    ),
    "check": Place(
        "holdfast_cli.check.command:check",
        "Check what applying FILE would do.",
    ),
    "plan": Place(
        "holdfast_cli.plan.command:plan",
        "Show what a job is going to cost, and when it will be done.",
    ),
    "probe": Place(
        "holdfast_cli.probe.command:probe",
        "Train a few steps of a job on each tier, and measure them.",
    ),
    "rehearse": Place(
        "holdfast_cli.rehearse.command:rehearse",
        "Interrupt a program on this machine, or a job on a tier, and compare it with an undisturbed run.",
    ),
    "demo": Plugin(LOCAL, "Watch a training lose three nodes and finish."),
    "simulate": Plugin(
        "pip install holdfast-research",
        "Show what policies would have cost on spot markets.",
    ),
    "ui": Place(
        "holdfast_cli.ui.command:ui",
        "Show jobs and tiers in a browser, live, and ask jobs to save, move or suspend.",
    ),
    "version": Place(
        "holdfast_cli.version:version",
        "Show the versions of holdfast, of its API and of the cluster.",
    ),
    "local": Plugin(
        LOCAL,
        "Run a local Kubernetes cluster with S3 and simulated GPU nodes, without containers.",
    ),
}


class Group(LazyGroup):
    """Ends a command with a message and an exit code, never a traceback, when Holdfast raises an error on purpose."""

    places = COMMANDS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As LazyGroup; the help of a command says how it was called."""
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.info_name == kubectl_plugin.PROGRAM and command is not None:
            kubectl_plugin.rename(command)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _in_words(error)
            raise
        except HoldfastError as error:
            raise typer.Exit(complain(error, program=ctx.info_name)) from error


def _in_words(wrong: typer.BadParameter) -> str:
    """What an option may be, if typer repeats the words of pydantic; otherwise its own message."""
    from pydantic import ValidationError  # noqa: PLC0415 - only a wrong command line needs it

    from holdfast.api.problems import what_is_allowed  # noqa: PLC0415

    if not isinstance(wrong.__cause__, ValidationError):
        return wrong.message
    problem = wrong.__cause__.errors()[0]
    allowed = what_is_allowed(problem)
    return allowed if problem["type"] == "value_error" else f"{shown(problem['input'])}: {allowed}"


def complain(error: HoldfastError, *, program: str = "holdfast") -> ExitCode:
    """Print an error for a person who started `program`. Return its exit code."""
    err, said = error_console(), str if program != kubectl_plugin.PROGRAM else kubectl_plugin.under_its_name
    err.print(Text.assemble(("error: ", "bold red"), said(str(error))))
    if isinstance(error, CliError) and error.hint:
        err.print(Text.assemble(("hint:  ", "dim"), said(error.hint)))
    return error.exit_code


app = typer.Typer(
    name="holdfast",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no answer, 4 not found, 5 not allowed.",
)


def _print_version(asked: bool) -> None:
    if asked:
        from holdfast_cli.version import own_version  # noqa: PLC0415 - other commands do not need it

        typer.echo(f"holdfast {own_version()}")
        raise typer.Exit


@app.callback()
def holdfast(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Keeps GPU training jobs alive on spot, dedicated and CPU nodes."""
