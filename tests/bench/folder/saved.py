"""The commits of a folder in an S3 store, without a pod: what the writer beside a program does, step by step."""

from pathlib import Path

from tests.support.http.s3_server import S3Server
from tests.support.trainer.folders import identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints, Saved
from holdfast_train.environment import Credentials
from holdfast_train.folder.capture import Capture
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.index import Index, read_index
from holdfast_train.folder.look import look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.storage.s3 import S3Storage
from holdfast_train.storage.s3_server import S3Server as Reached

BUCKET, ACCESS_KEY, SECRET_KEY = "runs", "access", "secret-key"  # of the store that the benchmark starts


def start_store(folder: Path) -> S3Server:
    """A versitygw with its objects below `folder`, which serves."""
    server = S3Server(folder)
    assert (server.bucket, server.access_key, server.secret_key) == (BUCKET, ACCESS_KEY, SECRET_KEY)
    (folder / BUCKET).mkdir(parents=True)
    server.start()
    return server


def storage_at(port: int, prefix: str) -> S3Storage:
    """The storage of a job, as its pod opens it."""
    reached = Reached(f"http://127.0.0.1:{port}", credentials=Credentials(ACCESS_KEY, SECRET_KEY))
    return S3Storage(BUCKET, prefix, reached)


class CommittedFolder:
    """The folder `root` of a program, and the `storage` of its job."""

    def __init__(self, storage: S3Storage, root: Path) -> None:
        self._root, self._storage = root, storage
        self._checkpoints = Checkpoints(storage, identity(), Keep(last=2))
        self._checkpoints.start("Auto")
        self._capture = Capture(storage, root, NewestSave(root, None), identity().attempt)
        self._commits = FolderCommits(self._checkpoints, storage)

    def commit(self) -> Saved:
        """Commit the folder as it is."""
        self._commits.prepare()
        self._capture.freeze(look(self._root).files, lambda: look(self._root), frozenset())
        made = self._commits.commit([self._capture.take()])
        if made is None:
            raise RuntimeError("nothing in the folder has changed")
        self._capture.note_committed(made.known)
        return made.saved

    @property
    def index(self) -> Index:
        """Of the newest commit, as the store has it."""
        found = self._checkpoints.newest()
        assert found is not None
        return read_index(self._storage, found)
