"""The folder that the demo leaves for the user."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast_local.demo.errors import DemoError
from holdfast_local.demo.stage import undisturbed


@contextmanager
def results(wanted: Path | None) -> Iterator[Path]:
    """A new folder, by default in the folder for temporary files. It is removed if the demo does not come to its end.

    Raises DemoError if it cannot be made, or exists.
    """
    try:
        if wanted is None:
            folder = Path(tempfile.mkdtemp(prefix="holdfast-results-"))
        else:
            folder = wanted.expanduser().absolute()
            folder.mkdir(parents=True)
    except FileExistsError:
        raise DemoError(f"--into {wanted} exists already", hint="use another name, or remove it first") from None
    except OSError as error:
        raise DemoError(f"{wanted or tempfile.gettempdir()}: {error.strerror or error}") from error
    try:
        yield folder
    except BaseException:
        with undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
        raise
