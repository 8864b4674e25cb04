"""Send the files of a folder to the storage of a job, with a bar on a terminal."""

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from holdfast_cli.code.folder import Selection
from holdfast_train.code import store
from holdfast_train.storage.base import Storage


def send(storage: Storage, selection: Selection, err: Console) -> int:
    """Send the files, unless the storage has them. The bytes of the archive that was uploaded, 0 if it was there.

    Raises as `holdfast_train.code.store.send`.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("packing and sending", total=max(1, selection.total))
        return store.send(storage, selection.root, selection.entries, lambda size: bar.advance(task, size))
