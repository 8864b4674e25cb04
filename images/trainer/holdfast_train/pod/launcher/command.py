"""The command `holdfast-run -- COMMAND [ARGUMENT ...]`."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

from .program import NOT_FOUND, Program, refusal
from .progress_relay import progress
from .signals.forwarding import shutdown_timeout
from .verdict import classify, exit_code
from .verdict_files import verdict_folder, write_verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command after `--`, and write the verdict. The exit code is that of the verdict."""
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] == ["--"]:
        command = command[1:]
    environment = dict(os.environ)
    verdict = _run(command, environment)
    write_verdict(environment.get("HOLDFAST_TERMINATION_LOG"), verdict)
    for number in (signal.SIGTERM, signal.SIGINT):  # the verdict is written: a late signal must not change the code
        signal.signal(number, signal.SIG_IGN)
    return exit_code(verdict)


def _run(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    """The verdict on the command."""
    if not command:
        text = "no command was given; usage: holdfast-run -- COMMAND [ARGUMENT ...]"
        return classify(refusal(NOT_FOUND, "CommandNotFound", text))
    text = environment.get("HOLDFAST_GRACE_SECONDS", "")
    grace = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) else 30.0
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(shutdown_timeout(grace))
    environment.setdefault("PYTHONUNBUFFERED", "1")  # otherwise a killed program loses its last lines
    environment.setdefault("PYTHONFAULTHANDLER", "1")  # a program that crashes, or hangs, shows where it was
    if environment.get("HOLDFAST_TRACKING_MLFLOW"):
        from .tracking.mlflow_run import mlflow_variables  # noqa: PLC0415 - other jobs need none of its imports

        environment |= mlflow_variables(environment)
    if environment.get("HOLDFAST_DATA"):
        from .staging.stager import stage  # noqa: PLC0415 - other jobs need none of its imports

        if (end := stage(environment)) is not None:
            return classify(end)
    if environment.get("HOLDFAST_NODES", "1") not in ("", "1"):
        from .attempts import run_attempts  # noqa: PLC0415 - a training on one node needs none of its imports

        return run_attempts(command, environment, grace)
    with verdict_folder(environment) as folder:
        if folder:
            environment["HOLDFAST_VERDICT_DIR"] = folder
        with progress(environment, folder) as (variables, listeners):
            program = Program(command, variables, grace, listeners=listeners)
            if environment.get("HOLDFAST_CHECKPOINT_FOLDER"):
                from .folder_writer import run_with_folder  # noqa: PLC0415 - other jobs need none of its imports

                return classify(run_with_folder(program, environment, folder))
            return classify(program.run(folder))
