"""Run uv, which locks and unpacks packages."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast_cli.errors import CliError

_LINES: Final = 30  # of what uv says in an error


def run_uv(*arguments: str, folder: Path, doing: str, is_shown: bool = False) -> str:
    """What `uv ARGUMENTS` prints, run in `folder`. `is_shown`: the person sees its progress.

    CliError if uv is not there, or if it fails: with what it said; `doing` says what it should do.
    """
    command = [*_uv(), *arguments, *([] if is_shown else ["--quiet"])]
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if is_shown else subprocess.PIPE,
    )
    if done.returncode != 0:
        said = _said(done.stderr)
        raise CliError(f"uv could not {doing}{f': {said}' if said else ''}", hint="--deps none sends no dependencies")
    return done.stdout.decode()


def _uv() -> Sequence[str]:
    if find_spec("uv") is not None:
        return (sys.executable, "-m", "uv")
    if found := shutil.which("uv"):
        return (found,)
    raise CliError(
        "the folder names dependencies, and uv, which locks and packs them, is not installed",
        hint="install it (pip install uv), or give --deps none if the image has all that the program needs",
    )


def _said(stderr: bytes | None) -> str:
    lines = (stderr or b"").decode(errors="replace").strip().splitlines()
    return "\n".join(lines[-_LINES:])
