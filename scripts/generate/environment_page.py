# ruff: noqa: E501 - rows of tables have no line breaks
"""The reference of a pod's environment: the variables, and the settings in HOLDFAST_SETTINGS."""

from typing import Final

from scripts.generate import document_tables

from holdfast_protocol import settings, variables

_HEADER: Final = """<!-- Generated from operator/protocol/holdfast_protocol by `make crds`. Do not edit. -->
# Environment

The operator sets these variables in the `trainer` container; the init container gets those of the job, of the keys and
of the settings. A program may read them. Names that begin with `HOLDFAST_` are refused in `spec.trainer.env`. A variable
without a value is not set. A value in `spec.trainer.env` may refer to a variable of the operator or of Kubernetes, such
as `$(HOLDFAST_JOB_UID)`. The launcher sets its variables later, so such a value cannot refer to them. Kubernetes leaves a
reference to a variable that is not there as it is; `holdfast check` warns of those that begin with `HOLDFAST_`.

## Variables

| variable | set by | value |
|---|---|---|
"""
_OTHERS: Final = """
Variables of other tools, which the program reads:

| variable | value |
|---|---|
| `PET_NNODES`, `PET_NPROC_PER_NODE`, `PET_NODE_RANK`, `PET_STANDALONE` | torchrun's defaults: one node, a process for each accelerator |
| `PET_MASTER_ADDR`, `PET_MASTER_PORT`, `PET_RDZV_BACKEND`, `MASTER_ADDR`, `MASTER_PORT` | where the processes of several nodes meet; the launcher sets them, and no `PET_STANDALONE`, for each start |
| `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `GROUP_RANK` | for a program with one process for each of several nodes; torchrun sets them for each of its processes |
| `KUBEFLOW_TRAINER_SERVER_URL`, `KUBEFLOW_TRAINER_SERVER_TOKEN` | address of the launcher, and file with its secret, for [a program without the library](../how-to/hugging-face.md); the launcher sets them, unless the user sets one of them, `KUBEFLOW_TRAINER_SERVER_CA_CERT`, or `DISABLE_KUBEFLOW_INTEGRATION=TRUE` |

## Settings

`HOLDFAST_SETTINGS` is one JSON object. `Run`, the launcher and the init container read it; a program needs none of it.
Times are in seconds, sizes in bytes. A field that is not set is left out. [Protocol](protocol.md) says what may change.

| field | default | value |
|---|---|---|
"""


def text() -> str:
    """The complete page in Markdown."""
    rows = "\n".join(f"| `{one.name}` | {one.by} | {one.value} |" for one in variables.TABLE)
    return f"{_HEADER}{rows}\n{_OTHERS}" + document_tables.rows(settings.Settings)
