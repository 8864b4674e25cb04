"""What an image says of the source that it is made of: version, commit and time."""

import os
import tomllib
from typing import Final, NamedTuple

from scripts.images.errors import BuildError
from scripts.images.processes import output
from scripts.setup import ROOT

EPOCH: Final = "SOURCE_DATE_EPOCH"


class Source(NamedTuple):
    """`commit`: 40 hexadecimal digits. `epoch`: the time of every file, in seconds since 1970.

    `is_changed`: True if a file differs from the commit, or is not in it and not ignored either.
    """

    version: str
    commit: str
    epoch: int
    is_changed: bool

    @property
    def revision(self) -> str:
        """What the label of an image says: the commit, and if it is not all that is in the image."""
        return f"{self.commit}-changed" if self.is_changed else self.commit


def read_source() -> Source:
    """The source in this folder; the time is SOURCE_DATE_EPOCH, otherwise that of the newest commit.

    BuildError if this is not a clone, or the variable is not a number.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit, changes = output("git", "rev-parse", "HEAD").strip(), output("git", "status", "--porcelain")
    given = os.environ.get(EPOCH) or output("git", "log", "-1", "--format=%ct").strip()
    if not given.isdecimal():
        raise BuildError(f"{EPOCH} is {given!r}; it must be a number of seconds since 1970, or not be set")
    return Source(project["version"], commit, int(given), is_changed=changes != "")
