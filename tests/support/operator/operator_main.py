"""Run the operator for a test: `python -m tests.support.operator.operator_main [flags]`.

Without flags of our own it is exactly `holdfast-operator run`.

--decider module:name      another decide function
--freeze-after JOB=K        the K-th write to a job of this name or its pod takes effect, and its pass never goes on:
                            nothing more is written to them, as if the process had been killed at that moment. So one
                            SIGKILL of the process serves many jobs, each right after a write of its own.
--freeze-after JOB=firstStep+K   the same, counted from the write that says the job's first step, which is K = 0
"""

import asyncio
import importlib
import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

from holdfast.runtime import command
from holdfast.runtime import operator as runtime
from holdfast.runtime.apiserver.gated_writer import GatedWriter
from holdfast.runtime.loop import execute

FROZEN = "frozen after a write"
FIRST_STEP = "firstStep+"
_COUNTED = re.compile(r"/(trainingjobs|pods)(/(?P<name>[^/]+)|$)")

log = logging.getLogger("tests.operator_main")


class FreezingWriter(GatedWriter):
    """A writer that never comes back from the last write that a job is allowed."""

    left: dict[str, int]
    from_first_step: dict[str, int]

    async def write(
        self, method: str, path: str, body: Mapping[str, Any] | list[Any], *more: Any, **named: Any
    ) -> dict[str, Any]:
        """As GatedWriter.write; see the module."""
        job = _job(path, body)
        if job in self.from_first_step and '"firstStep"' in json.dumps(body):
            self.left[job] = self.from_first_step.pop(job) + 1
        if job not in self.left:
            return await super().write(method, path, body, *more, **named)
        if self.left[job] <= 0:
            await asyncio.Event().wait()
        answer = await super().write(method, path, body, *more, **named)
        self.left[job] -= 1
        if self.left[job] <= 0:
            log.warning(FROZEN, extra={"job": job})
            await asyncio.Event().wait()
        return answer


def _job(path: str, body: Mapping[str, Any] | list[Any]) -> str:
    """The job that a write concerns, "" for a write to something else."""
    found = _COUNTED.search(path)
    if found is None:
        return ""
    name = found["name"] or (body["metadata"]["name"] if isinstance(body, Mapping) else "")
    return name.rsplit("-", 2)[0] if found[1] == "pods" else name


def _take(arguments: list[str], flag: str) -> list[str]:
    """All values of a flag; they are removed from the arguments."""
    values = []
    while flag in arguments:
        at = arguments.index(flag)
        values.append(arguments[at + 1])
        del arguments[at : at + 2]
    return values


def main() -> None:
    """Parse our own flags, leave the rest to the real command."""
    arguments = sys.argv[1:]
    if deciders := _take(arguments, "--decider"):
        module, _, name = deciders[-1].partition(":")
        decide = getattr(importlib.import_module(module), name)
        real = runtime.run
        runtime.run = lambda settings: real(settings, decide)  # type: ignore[assignment,misc]
    if pairs := [pair.partition("=") for pair in _take(arguments, "--freeze-after")]:
        after = {job: count.partition(FIRST_STEP) for job, _, count in pairs}
        FreezingWriter.left = {job: int(count) for job, (count, mark, _) in after.items() if not mark}
        FreezingWriter.from_first_step = {job: int(count) for job, (_, mark, count) in after.items() if mark}
        vars(runtime)["GatedWriter"] = FreezingWriter
        vars(execute)["WRITERS"] = 1000  # a job that has stopped keeps its turn, and must not take the others'
    sys.exit(command.main(["run", *arguments]))


if __name__ == "__main__":
    main()
