"""What an image says of the source that it is made of: version, commit and time."""

import os
import tomllib
from collections.abc import Sequence
from typing import Final, NamedTuple

from scripts.images.errors import BuildError
from scripts.images.processes import output
from scripts.setup import ROOT

EPOCH: Final = "SOURCE_DATE_EPOCH"
_LAST_TIME: Final = 2**32 - 1  # of gzip; wheels end in 2107


class Source(NamedTuple):
    """`commit`: 40 hexadecimal digits. `epoch`: the time of every file, in seconds since 1970.

    `changed`: files that differ from the commit, and those that are neither in it nor ignored by a .gitignore of it.
    """

    version: str
    commit: str
    epoch: int
    changed: Sequence[str]

    @property
    def revision(self) -> str:
        """What the label of an image says: the commit, and if it is not all that is in the image."""
        return f"{self.commit}-changed" if self.changed else self.commit


def read_source() -> Source:
    """The source in this folder; the time is SOURCE_DATE_EPOCH, otherwise that of the newest commit.

    BuildError if this is not a clone, or the variable is not a number.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commit = output("git", "rev-parse", "HEAD").strip()
    # Not `git status`: settings of the user hide files from it, and such files come into wheels all the same.
    changed = output("git", "diff", "--name-only", "-z", "--no-ext-diff", "HEAD")
    changed += output("git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
    given = os.environ.get(EPOCH) or output("git", "log", "-1", "--format=%ct").strip()
    if not given.isdecimal() or int(given) > _LAST_TIME:
        raise BuildError(
            f"{EPOCH} is {given!r}; it must be a number of seconds since 1970, at most {_LAST_TIME}, or not be set"
        )
    return Source(project["version"], commit, int(given), changed.split("\0")[:-1])
