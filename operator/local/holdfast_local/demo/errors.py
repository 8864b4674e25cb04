"""Errors of the demo."""

from holdfast_cli.errors import CliError


class DemoError(CliError):
    """The demo cannot go on."""
