"""The command `holdfast-run -- COMMAND [ARGUMENT ...]`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from holdfast_protocol import reasons, settings, variables
from holdfast_protocol.document import DocumentError
from holdfast_protocol.verdict import Verdict

from .program import MISCONFIGURED, NOT_FOUND, Log, Program, refusal
from .progress.relay import progress
from .signals.forwarding import shutdown_timeout
from .verdict import classify, exit_code
from .verdict_files import say, verdict_folder, write_verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command after `--`, and write the verdict. The exit code is that of the verdict."""
    command = list(sys.argv[1:] if argv is None else argv)
    if command[:1] == ["--"]:
        command = command[1:]
    environment = dict(os.environ)
    with _log(environment) as log:
        verdict = _run(command, environment, log)
        write_verdict(environment.get(variables.TERMINATION_LOG), verdict)
        for number in (signal.SIGTERM, signal.SIGINT):  # the verdict is written: a late signal must not change the code
            signal.signal(number, signal.SIG_IGN)
    return exit_code(verdict)


def _log(environment: Mapping[str, str]) -> contextlib.AbstractContextManager[Log]:
    """The log of this container, kept if the job wants that and has a storage."""
    with contextlib.suppress(DocumentError):  # `_run` says what is wrong
        own = settings.read(environment)
        if own.keep.logs and own.checkpoint_uri is not None:
            try:
                from .kept_log import KeptLog  # noqa: PLC0415 - other jobs need none of its imports

                return KeptLog(environment)
            except ImportError as error:
                say(f"the log of this pod is not kept beside the checkpoints: python3 of the image has {error}")
    return contextlib.nullcontext(Log())


def _run(command: Sequence[str], environment: dict[str, str], log: Log) -> Verdict:
    """The verdict on the command."""
    if not command:
        text = "no command was given; usage: holdfast-run -- COMMAND [ARGUMENT ...]"
        return classify(refusal(NOT_FOUND, reasons.COMMAND_NOT_FOUND, text))
    try:
        own = settings.read(environment)
    except DocumentError as error:
        return classify(refusal(MISCONFIGURED, "EnvironmentInvalid", str(error)))
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(shutdown_timeout(own.grace))
    environment.setdefault("PYTHONUNBUFFERED", "1")  # otherwise a killed program loses its last lines
    environment.setdefault("PYTHONFAULTHANDLER", "1")  # a program that crashes, or hangs, shows where it was
    if own.mlflow:
        from .mlflow_run import mlflow_variables  # noqa: PLC0415 - other jobs need none of its imports

        environment |= mlflow_variables(environment)
    if own.dependencies:
        from .dependencies import DO_NOT_FIT, add_dependencies, misfit  # noqa: PLC0415 - other jobs need none of its imports

        add_dependencies(environment)
        if (problem := misfit(command, environment)) is not None:
            return classify(refusal(MISCONFIGURED, DO_NOT_FIT, problem))
    if own.data:
        from .stager import stage  # noqa: PLC0415 - other jobs need none of its imports

        if (end := stage(environment)) is not None:
            return classify(end)
    if variables.has_several_nodes(environment):
        from .attempts import run_attempts  # noqa: PLC0415 - a training on one node needs none of its imports

        return run_attempts(command, environment, own.grace, log)
    with verdict_folder(environment) as folder:
        if folder:
            environment[variables.VERDICT_DIR] = folder
        with progress(environment, folder) as (changed, listeners):
            program = Program(command, changed, own.grace, listeners=listeners, log=log)
            if own.folder:
                from .folder_writer import run_with_folder  # noqa: PLC0415 - other jobs need none of its imports

                return classify(run_with_folder(program, environment, folder))
            return classify(program.run(folder))
