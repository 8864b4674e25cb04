"""`holdfast`: what people type."""

from typing import Any, Final

import typer
from rich.text import Text

from holdfast.api.errors import HoldfastError
from holdfast.cli.errors import CliError, ExitCode
from holdfast.cli.lazy_commands import LazyGroup, Place
from holdfast.cli.ui.console import error_console

COMMANDS: Final = {
    "watch": Place(
        "holdfast.cli.jobs.watch:watch",
        "Show jobs as they go on: phase, tier, node, step, loss, ETA, attempts and events as they happen.",
    ),
    "describe": Place(
        "holdfast.cli.jobs.describe:describe",
        "Say how a job stands, why, what happened before, and what happens next.",
    ),
    "why": Place(
        "holdfast.cli.why.command:why",
        "Say why a job is on its tier: what was decided last, what its policy says now, and every figure behind it.",
    ),
    "checkpoint": Place("holdfast.cli.jobs.request:checkpoint", "Save a checkpoint now, and say which step was saved."),
    "checkpoints": Place(
        "holdfast.cli.checkpoints.app:app",
        "Look at checkpoints: list, show, verify, compare, prune. Works on a job, or on a storage without a cluster.",
    ),
    "move": Place("holdfast.cli.jobs.request:move", "Let a job save, leave its node, and go on elsewhere."),
    "check": Place(
        "holdfast.cli.check.command:check",
        "Say what would happen if FILE were applied: what is refused and why, which tiers match no node, what is "
        "missing.",
    ),
    "demo": Place("holdfast.cli.demo.command:demo", "Watch a training lose three nodes and finish."),
    "simulate": Place(
        "holdfast.cli.simulate:run", "Say what policies would have cost, beside the cheapest with the future known."
    ),
    "version": Place(
        "holdfast.cli.version:version",
        "Show the versions of holdfast, of its API, and of the cluster if one answers.",
    ),
    "local": Place(
        "holdfast.cli.local:app",
        "A real Kubernetes control plane, an S3 server and simulated GPU nodes on this machine, without containers.",
    ),
    "operator": Place("holdfast.cli.operator:app", "Run the operator, or prepare its removal."),
}


class Group(LazyGroup):
    """An error that Holdfast raises on purpose ends a command with words and an exit code, never with a traceback."""

    places = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            raise typer.Exit(complain(error)) from error


def complain(error: HoldfastError) -> ExitCode:
    """Print an error for people; the exit code that it calls for."""
    err = error_console()
    err.print(Text.assemble(("error: ", "bold red"), str(error)))
    if isinstance(error, CliError):
        if error.hint:
            err.print(Text.assemble(("hint:  ", "dim"), error.hint))
        return error.code
    return ExitCode.FAILED


app = typer.Typer(
    name="holdfast",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 1 it did not work, 2 wrong command line, 3 no cluster, 4 no such thing, 5 not allowed.",
)


@app.callback()
def holdfast() -> None:
    """Keeps GPU training jobs alive on spot, dedicated and CPU nodes."""


def main() -> None:
    """The `holdfast` program."""
    app(prog_name="holdfast")


if __name__ == "__main__":
    main()
