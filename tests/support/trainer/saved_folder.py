"""A folder into which a program writes, and the storage to which its checkpoints are committed."""

from pathlib import Path

from tests.support.trainer.folders import identity

from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.commitlog.records import Keep
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import look
from holdfast_train.storage.folder import FolderStorage


class SavedFolder:
    """The folder `outputs` and the storage `store` below `place`. Attempt 1 holds the fence."""

    def __init__(self, place: Path, keep: int = 2) -> None:
        self.storage = FolderStorage(place / "store")
        self.root = place / "outputs"
        self.checkpoints = Checkpoints(self.storage, identity(), Keep(last=keep))
        self.checkpoints.start("Auto")
        self.commits = FolderCommits(self.checkpoints, self.storage, self.root)

    def unit(self, step: int) -> Unit:
        """The checkpoint of this step in the folder."""
        return next(u for u in find(look(self.root)) if u.step == step)

    @property
    def stored(self) -> int:
        """Bytes of data in the storage."""
        return sum(entry.size for entry in self.storage.entries("data/"))
