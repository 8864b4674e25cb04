"""Run a program and read what it says."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.images.errors import BuildError
from scripts.setup import ROOT

_LAST_LINES = 15  # of what a program said, in an error


def output(*command: str | Path, extra: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What the program wrote to standard output. `extra` variables are added to those of this process.

    BuildError, with the last lines that the program wrote, if it fails or is not there.
    """
    words = [str(part) for part in command]
    environment = {**os.environ, **(extra or {})}
    try:
        done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"`{words[0]}` cannot be started: {error.strerror}") from error
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:])
        raise BuildError(f"`{' '.join(words)}` failed with exit code {done.returncode}:\n{said}")
    return done.stdout
