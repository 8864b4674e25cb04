"""Send the files of a folder to the storage of a job, with a bar on a terminal."""

from rich.console import Console

from holdfast_cli.code.folder import Selection
from holdfast_cli.terminal.bytes_bar import bytes_bar
from holdfast_train.code import store
from holdfast_train.storage.base import Storage


def send(storage: Storage, selection: Selection, err: Console) -> int:
    """Send the files, unless the storage has them. The bytes of the archive that was uploaded, 0 if it was there.

    Raises as `holdfast_train.code.store.send`.
    """
    with bytes_bar(err, "packing and sending", selection.total) as advance:
        return store.send(storage, selection.root, selection.entries, advance)
