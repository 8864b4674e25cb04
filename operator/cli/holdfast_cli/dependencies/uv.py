"""Run uv, which locks and unpacks packages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast_cli.errors import CliError

HINT: Final = "--deps none sends no dependencies"
_LINES: Final = 30  # of what uv says in an error
_OWN: Final = {"UV_COMPILE_BYTECODE": "0", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "0"}


def run_uv(*arguments: str, folder: Path, doing: str, said: str = "", is_shown: bool = False) -> str:
    """What `uv ARGUMENTS` prints, run in `folder`. `said`: its standard input.

    `is_shown`: the person sees its progress. CliError if uv is not there, or if it fails: with what it said; `doing`
    says what it should do.
    """
    done = subprocess.run(
        [*_uv(), *arguments, *([] if is_shown else ["--quiet"])],
        check=False,
        cwd=folder,
        env={**os.environ, **_OWN},
        input=said.encode(),
        stdout=subprocess.PIPE,
        stderr=None if is_shown else subprocess.PIPE,
    )
    if done.returncode != 0:
        why = "\n".join((done.stderr or b"").decode(errors="replace").strip().splitlines()[-_LINES:])
        hint = "this uv is too old: pip install --upgrade uv" if "unexpected argument" in why else HINT
        raise CliError(f"uv could not {doing}{f': {why}' if why else ''}", hint=hint)
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
