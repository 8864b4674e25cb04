"""`Place`: where the runs of a rehearsal lie on this machine."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast_cli.errors import CliError, ExitCode
from holdfast_train.errors import EnvironmentVariableError
from holdfast_train.folder.look import OWN
from holdfast_train.pod.init_container import copy_launcher

JOB: Final = "job"  # below the store of a run, as a prefix in a bucket
PREFIX: Final = ".holdfast-rehearsal-"  # of the folder with what the runs leave


class Place:
    """`folder`: of the program, used by one run after the other. `root`: what the runs leave, and the launcher."""

    def __init__(self, root: Path, folder: Path | None) -> None:
        self.root, self.folder = root.absolute(), folder
        try:
            self.launcher = copy_launcher(root)
        except EnvironmentVariableError as error:
            raise CliError(f"{root}: {error}") from error

    def of(self, run: str) -> Path:
        """A folder for what the run leaves."""
        path = self.root / run
        path.mkdir(exist_ok=True)
        return path

    def store(self, run: str) -> Path:
        """Where the run has its checkpoints."""
        path = self.of(run) / "store"
        path.mkdir(exist_ok=True)
        return path

    def empty(self) -> None:
        """Delete what is in the folder of the program: another machine has nothing there."""
        if self.folder is not None:
            _delete_content(self.folder)

    def take_away(self, run: str) -> tuple[Path, ...]:
        """Move what is in the folder of the program to what the run leaves, without Holdfast's own files."""
        if self.folder is None or not self.folder.is_dir():
            return ()
        target = self.of(run) / "folder"
        with _writing(target):
            target.mkdir()
            for path in self.folder.iterdir():
                if not path.name.startswith(OWN):
                    shutil.move(path, target / path.name)
        self.empty()
        return (target,)


@contextmanager
def made_place(folder: Path | None, keep: Path | None) -> Iterator[Place]:
    """A place for the runs, which is deleted in the end unless it is `keep`. The folder is left as it was found.

    CliError if the folder of the program has something in it, or if `keep` has.
    """
    existed = folder is not None and folder.exists()
    above = None if folder is None else _existing(folder)
    if folder is not None:
        _check_empty(folder, "--folder", _hint(folder))
    if keep is not None:
        _check_empty(keep, "--keep", "name another folder")
        if folder is not None and (keep.absolute().is_relative_to(folder) or folder.is_relative_to(keep.absolute())):
            raise CliError(f"--keep: {keep} and the folder of the program lie in each other", code=ExitCode.USAGE)
    root = keep
    try:
        with _writing(root or folder):
            if root is None:
                root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
            else:
                root.mkdir(parents=True, exist_ok=True)
            place = Place(root, folder)
        yield place
    finally:
        if keep is None and root is not None:
            shutil.rmtree(root, ignore_errors=True)
        if folder is not None and folder.is_dir():
            _delete_content(folder)
            if not existed:
                for made in (folder, *folder.parents[: folder.parents.index(above)]) if above else ():
                    made.rmdir()


@contextmanager
def _writing(path: Path | None) -> Iterator[None]:
    """CliError in the place of an OSError."""
    try:
        yield
    except OSError as error:
        raise CliError(f"the rehearsal cannot write to {error.filename or path}: {error.strerror or error}") from error


def _check_empty(folder: Path, option: str, hint: str) -> None:
    if folder.is_symlink() and not folder.exists():
        raise CliError(f"{option}: {folder} is a link that leads nowhere; {hint}", code=ExitCode.USAGE)
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        what = "is not empty" if folder.is_dir() else "is not a folder"
        raise CliError(f"{option}: {folder} {what}; {hint}", code=ExitCode.USAGE)


def _hint(folder: Path) -> str:
    left = sorted(folder.parent.glob(f"{PREFIX}*"))
    if not left:
        return "move its content away, or give the program another folder for the rehearsal"
    return (
        f"a rehearsal was killed, or still runs: end the processes that it has left, and delete {left[0]} and the "
        f"content of {folder}"
    )


def _existing(folder: Path) -> Path:
    """The lowest folder above `folder` that exists: on the same volume, as a rule, so that files need not be copied."""
    return next(path for path in folder.parents if path.is_dir())


def _delete_content(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
