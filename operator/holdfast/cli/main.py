"""`holdfast`: what people type."""

from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from holdfast.api.errors import HoldfastError
from holdfast.cli import local, operator
from holdfast.cli.check import check
from holdfast.cli.console import error_console
from holdfast.cli.demo.command import demo
from holdfast.cli.describe import describe
from holdfast.cli.errors import CliError, ExitCode
from holdfast.cli.request import checkpoint, move
from holdfast.cli.simulate import run as simulate
from holdfast.cli.version import version
from holdfast.cli.watch import watch
from holdfast.cli.why import why


class Group(TyperGroup):
    """An error that Holdfast raises on purpose ends a command with words and an exit code, never with a traceback."""

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
    help="Keeps GPU training jobs alive on spot, dedicated and CPU nodes.",
    epilog="Exit codes: 1 it did not work, 2 wrong command line, 3 no cluster, 4 no such job, 5 not allowed.",
)
app.command()(watch)
app.command()(describe)
app.command()(why)
app.command()(checkpoint)
app.command()(move)
app.command()(check)
app.command()(demo)
app.command("simulate")(simulate)
app.command()(version)
app.add_typer(local.app, name="local")
app.add_typer(operator.app, name="operator")


def main() -> None:
    """The `holdfast` program."""
    app(prog_name="holdfast")


if __name__ == "__main__":
    main()
