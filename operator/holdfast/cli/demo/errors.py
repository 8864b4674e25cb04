"""What can go wrong on the demo's stage."""

from holdfast.cli.errors import CliError


class DemoError(CliError):
    """The demo cannot go on."""
