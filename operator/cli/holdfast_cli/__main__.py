"""The `holdfast` program, also `python -m holdfast_cli`."""

import errno
import os
import sys
from pathlib import Path
from typing import Final

from holdfast_cli import kubectl_plugin as plugin
from holdfast_cli.errors import CliError
from holdfast_cli.main import app, complain

_NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def main(program: str = "holdfast") -> None:
    """Run the command that was typed, as `program`."""
    _open_closed_streams()
    try:
        app(prog_name=program)
    except OSError as error:
        if error.filename is None and error.errno not in _NOT_WRITTEN:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise Python writes the rest at its end, and fails again
        what = error.filename or "the answer cannot be written"
        sys.exit(complain(CliError(f"{what}: {error.strerror}"), program=program))


def _open_closed_streams() -> None:
    """A closed standard stream is an empty one. A character that a terminal cannot show becomes a question mark."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the program ends
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):  # a test may put another kind of stream there
            reconfigure(errors="replace")


def kubectl_plugin() -> None:
    """The program `kubectl-holdfast`."""
    main(plugin.PROGRAM)


def kubectl_completion() -> None:
    """The program `kubectl_complete-holdfast`."""
    plugin.complete(main)


if __name__ == "__main__":
    main()
