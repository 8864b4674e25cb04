"""Where commands keep what they can make again."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$HOLDFAST_CACHE`, otherwise `$XDG_CACHE_HOME/holdfast`, otherwise `~/.cache/holdfast`."""
    if chosen := os.environ.get("HOLDFAST_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "holdfast"
