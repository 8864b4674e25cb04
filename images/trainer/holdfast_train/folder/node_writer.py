"""`NodeWriter`: what the writers of all nodes have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast_train.commitlog.checkpoints import Found
from holdfast_train.commitlog.quarantine import BROKEN
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, NoCheckpointError
from holdfast_train.folder.index import Index, read_index
from holdfast_train.folder.launcher import Launcher
from holdfast_train.folder.node import NodeFolder
from holdfast_train.folder.verdict import FolderVerdict
from holdfast_train.progress import Silence
from holdfast_train.say import say
from holdfast_train.storage.opening import open_retrying
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import PATIENCE_SECONDS

BURST_BYTES: Final = 8 << 20  # of the rate limit


class NodeWriter:
    """The folder `root` of a node, the storage of its job, and the `launcher` of its pod."""

    def __init__(self, environment: Environment, root: Path, launcher: Launcher) -> None:
        assert environment.settings.checkpoint_uri is not None
        self._environment = environment
        self._root = root
        self._launcher = launcher
        launcher.on_finish = self._hurry
        self._storage = open_retrying(environment, environment.settings.checkpoint_uri, self._on_silence)
        self._rate = RateLimit(environment.upload_rate, BURST_BYTES)
        self._folder = NodeFolder(environment, self._storage, root, rate=self._rate, check=launcher.check)

    def _hurry(self) -> None:
        """The program has ended."""
        self._rate.limit = None

    def _on_silence(self, silence: Silence | None) -> None:
        """The storage does not answer, or answers again."""

    def _newest_commit(self, newest: Callable[[], Found | None]) -> tuple[Index | None, str]:
        """What the newest checkpoint consists of, and its address; None if there is none, or if it is broken."""
        try:
            with self._storage.within(PATIENCE_SECONDS):
                found = newest()
                return (None, "") if found is None else (read_index(self._storage, found), found.uri)
        except (*BROKEN, NoCheckpointError) as error:
            say(f"the newest checkpoint cannot be compared with {self._root}: {error}")
            return None, ""

    def _refuse(self, error: HoldfastTrainError, saved_step: int | None = None) -> FolderVerdict:
        """Say and write the verdict of `error`."""
        say(f"{error.reason}: {error}")
        verdict = FolderVerdict(error.outcome, str(error), error.reason, saved_step=saved_step)
        verdict.write(self._environment)
        return verdict
