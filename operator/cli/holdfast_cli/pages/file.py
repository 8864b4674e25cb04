"""Write a page into a file, or to the standard output."""

from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from holdfast_cli.errors import CliError
from holdfast_cli.terminal.console import error_console
from holdfast_train.exchange.progress_bar import format_size

STDOUT: Final = "-"


def check_page(to: str, *, option: str) -> None:
    """CliError if the page surely cannot be written there: to be known before minutes of work."""
    path = Path(to)
    if to != STDOUT and (path.is_dir() or not path.absolute().parent.is_dir()):
        problem = "it is a folder" if path.is_dir() else f"there is no folder {path.absolute().parent}"
        raise CliError(f"{path} cannot be written: {problem}", hint=f"give another file with {option}")


def write_page(text: str, to: str, *, option: str) -> None:
    """Write the document into the file `to`, and say so. CliError, which names the option, if it cannot be written."""
    content = text.encode(errors="replace")
    if to == STDOUT:
        typer.echo(content, nl=False)
        return
    path = Path(to)
    store_page(content, path, hint=f"give another file with {option}")
    error_console().print(Text(f"wrote {path}, {format_size(len(content))}"))


def store_page(content: bytes, path: Path, *, hint: str) -> None:
    """Write the file. CliError if it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error
