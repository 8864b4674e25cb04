"""`keep`: the evidence of a hang goes into the job's storage, beside the checkpoints, before the program is ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast_protocol import settings

from ..library import ask_library
from ..verdict_files import say

KEEP_SECONDS = 20.0
MODULE = "holdfast_train.pod.evidence"


def keep(document: Mapping[str, Any], python: str, environment: Mapping[str, str]) -> None:
    """Store `document`, with the library of the program, which `python` has, or with another one of this container.

    The environment tells that process where the storage is; no word of it is in the document.
    """
    if settings.read(environment).checkpoint_uri is None:
        return
    try:
        address = ask_library(MODULE, json.dumps(document).encode(), python, environment, seconds=KEEP_SECONDS)
    except OSError as error:
        say(f"the evidence is not kept: {error}")
        return
    say(f"the evidence is kept at {address}: holdfast evidence shows it")
