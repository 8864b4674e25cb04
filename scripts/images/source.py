"""What an image says of the source that it is made of: version, commit and time."""

import os
import tomllib
from typing import Final, NamedTuple

from scripts.images.errors import BuildError
from scripts.images.processes import output
from scripts.setup import ROOT

EPOCH: Final = "SOURCE_DATE_EPOCH"


class Source(NamedTuple):
    """`epoch`: the time of every file, in seconds since 1970. `revision` ends with -dirty if a file is changed."""

    version: str
    revision: str
    epoch: int


def read_source() -> Source:
    """The source in this folder; the time is SOURCE_DATE_EPOCH, otherwise that of the newest commit.

    BuildError if this is not a clone, or the variable is not a number.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    revision = output("git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*").strip()
    given = os.environ.get(EPOCH) or output("git", "log", "-1", "--format=%ct").strip()
    if not given.isdecimal():
        raise BuildError(f"{EPOCH} is {given!r}; it must be a number of seconds since 1970, or not be set")
    return Source(project["version"], revision, int(given))
