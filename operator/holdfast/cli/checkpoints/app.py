"""`holdfast checkpoints`: its commands."""

import typer

from holdfast.cli.checkpoints.branch.pin_command import pin, unpin
from holdfast.cli.checkpoints.diff_command import diff
from holdfast.cli.checkpoints.export.command import export
from holdfast.cli.checkpoints.history.command import history
from holdfast.cli.checkpoints.list_command import list_
from holdfast.cli.checkpoints.prune_command import prune
from holdfast.cli.checkpoints.show_command import show
from holdfast.cli.checkpoints.verify_command import verify

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
