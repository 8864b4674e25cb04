"""`keep`: the evidence of a hang goes into the job's storage, beside the checkpoints, before the program is ended."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from holdfast_protocol import settings

from ..library import library_command
from ..verdict_files import say

KEEP_SECONDS = 20.0
MODULE = "holdfast_train.pod.evidence"


def keep(document: Mapping[str, Any], python: str, environment: Mapping[str, str]) -> None:
    """Store `document`, with the library of the program, which `python` has, or that of `checkpoint.folder`.

    The environment tells that process where the storage is; no word of it is in the document.
    """
    own = settings.read(environment)
    if own.checkpoint_uri is None:
        return
    if python:
        command = [python, "-P", "-m", MODULE]
    elif own.folder:
        command = library_command(MODULE)
    else:
        return
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    except OSError as error:
        say(f"the evidence is not kept: {error}")
        return
    try:
        told, _ = process.communicate(json.dumps(document).encode(), KEEP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        say(f"the evidence is not kept: the storage took more than {KEEP_SECONDS:.0f} s")
        return
    if address := told.decode("utf-8", "replace").strip():  # its errors are in the log already
        say(f"the evidence is kept at {address}: holdfast evidence shows it")
