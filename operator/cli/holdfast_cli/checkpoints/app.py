"""`holdfast checkpoints`: its commands."""

import typer

from holdfast_cli.checkpoints.branch.pin_command import pin, unpin
from holdfast_cli.checkpoints.diff_command import diff
from holdfast_cli.checkpoints.export.command import export
from holdfast_cli.checkpoints.history.command import history
from holdfast_cli.checkpoints.list_command import list_
from holdfast_cli.checkpoints.prune_command import prune
from holdfast_cli.checkpoints.show_command import show
from holdfast_cli.checkpoints.verify_command import verify

app = typer.Typer(
    name="checkpoints",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, export, verify, compare, pin and prune checkpoints. Works on a job, or on a storage without a "
    "cluster.",
)
app.command("list")(list_)
app.command()(show)
app.command()(history)
app.command()(verify)
app.command()(diff)
app.command()(export)
app.command()(pin)
app.command()(unpin)
app.command()(prune)
