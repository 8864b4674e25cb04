"""If variables that a job refers to, such as $(HOLDFAST_JOB_UID), are there when its pod starts. Pure.

Kubernetes puts values in for the names of variables that come earlier, in values, command and args. It leaves any other
text as it is, without a word, so the program gets `$(NAME)` itself.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from holdfast.api.job import TrainingJobSpec
from holdfast_cli.check.findings import Report
from holdfast_protocol import variables

_REFERENCE: Final = re.compile(rf"\$\$|\$\(({variables.PREFIX}[^)]*)\)")  # $$ is one $, and begins no reference
_PAGE: Final = "those that are: docs/reference/environment.md"
_BY: Final = {one.name: one.by for one in variables.TABLE}


def check_references(spec: TrainingJobSpec, report: Report) -> None:
    """Warn of each variable of Holdfast that a pod of the job does not have, or not in each attempt."""
    for field, text in _texts(spec):
        for name in dict.fromkeys(match[1] for match in _REFERENCE.finditer(text) if match[1]):
            if why := _missing(name, spec):
                report.warn(field, f"$({name}) stays as it is: {why}")


def _texts(spec: TrainingJobSpec) -> Iterator[tuple[str, str]]:
    trainer = spec.trainer
    for field, texts in (("command", trainer.command), ("args", trainer.args)):
        yield from ((f"spec.trainer.{field}[{number}]", text) for number, text in enumerate(texts))
    yield from ((f"spec.trainer.env[{one.name}].value", one.value or "") for one in trainer.env)


def _missing(name: str, spec: TrainingJobSpec) -> str:
    """Why the variable may not be there; empty if it is."""
    by, s3 = _BY.get(name), spec.checkpoint.storage.s3
    if by is None or name == variables.LAUNCHER_DIR:
        close = get_close_matches(name, [one for one in _BY if one != variables.LAUNCHER_DIR], 1, cutoff=0.8)
        return f"no such variable is set; {f'did you mean {close[0]}?' if close else _PAGE}"
    if by == variables.LAUNCHER:
        return "the launcher sets it, after Kubernetes has put in the values; read it in the program"
    if name == variables.GOAL_STEPS and spec.goal.steps is None:
        return "it is set only with goal.steps"
    if name == variables.POD_IP and spec.trainer.nodes == 1:
        return "it is set only with several nodes"
    if name == variables.PREDECESSOR:
        return "it is set only in a successor; read it in the program"
    if name in map(variables.of_key, variables.KEYS) and (s3 is None or s3.credentials_secret is None):
        return "it is set only with checkpoint.storage.s3.credentialsSecret"
    return ""
