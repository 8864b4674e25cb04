"""The command `holdfast-run -- COMMAND [ARGUMENT ...]`."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence

from .program import NOT_FOUND, Program
from .verdict import End, classify
from .verdict_files import complain, verdict_folder, write_verdict


def shutdown_timeout(grace: float) -> int:
    """Whole seconds that torchrun waits for its workers: the grace less a fifth (at most 10 s less), at least 1."""
    return max(1, int(grace - min(10.0, 0.2 * grace)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command after `--`. The exit code is that of the program, but 0 if it completed or saved and left."""
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] == ["--"]:
        command = command[1:]
    environment = dict(os.environ)
    end = _run(command, environment)
    verdict = classify(end)
    if end.start_error is not None:
        complain(end.start_error[1])
    write_verdict(environment.get("HOLDFAST_TERMINATION_LOG"), verdict)
    for number in (signal.SIGTERM, signal.SIGINT):  # the verdict is written: a late signal must not change the code
        signal.signal(number, signal.SIG_IGN)
    if verdict["outcome"] == "completed" or verdict["reason"] == "SavedAndLeft":
        return 0
    return 128 + (end.signal or 0) if end.code is None else end.code  # as a shell gives it


def _run(command: Sequence[str], environment: dict[str, str]) -> End:
    if not command:
        text = "no command was given; usage: holdfast-run -- COMMAND [ARGUMENT ...]"
        return End(NOT_FOUND, None, None, start_error=("CommandNotFound", text))
    text = environment.get("HOLDFAST_GRACE_SECONDS", "")
    grace = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else 30.0
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(shutdown_timeout(grace))
    environment.setdefault("PYTHONUNBUFFERED", "1")  # otherwise a killed program loses its last lines
    with verdict_folder(environment) as folder:
        if folder:
            environment["HOLDFAST_VERDICT_DIR"] = folder
        return Program(command, environment, grace).run(folder)
