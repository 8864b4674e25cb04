"""The variables of a training container that are not settings: all that have a name of their own.

Programs and shells of users read them, or only Kubernetes can fill them in. Everything else is in `SETTINGS`. The page
docs/reference/environment.md shows TABLE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "HOLDFAST_"  # names that users may not set

NAMESPACE = "HOLDFAST_NAMESPACE"
JOB = "HOLDFAST_JOB"
JOB_UID = "HOLDFAST_JOB_UID"
ATTEMPT = "HOLDFAST_ATTEMPT"
PREDECESSOR = "HOLDFAST_PREDECESSOR"
NODES = "HOLDFAST_NODES"
RANK = "HOLDFAST_RANK"
TIER = "HOLDFAST_TIER"
ACCELERATORS = "HOLDFAST_ACCELERATORS"
GOAL_STEPS = "HOLDFAST_GOAL_STEPS"
POD_NAME = "HOLDFAST_POD_NAME"
POD_UID = "HOLDFAST_POD_UID"
POD_IP = "HOLDFAST_POD_IP"
SETTINGS = "HOLDFAST_SETTINGS"
TERMINATION_LOG = "HOLDFAST_TERMINATION_LOG"
LAUNCHER_DIR = "HOLDFAST_LAUNCHER_DIR"
CODE_DIR = "HOLDFAST_CODE_DIR"
DEPENDENCIES_DIR = "HOLDFAST_DEPENDENCIES_DIR"
NEWEST_CHECKPOINT = "HOLDFAST_NEWEST_CHECKPOINT"
VERDICT_DIR = "HOLDFAST_VERDICT_DIR"
MLFLOW_RUN_URL = "HOLDFAST_MLFLOW_RUN_URL"
KEEPER = "HOLDFAST_KEEPER"
IN_PLACE = "HOLDFAST_IN_PLACE"
PROCESSES = "PET_NPROC_PER_NODE"  # the defaults of torchrun: the operator sets those of one node, the launcher others
SEVERAL = "PET_NNODES"
RANK_OF_NODE = "PET_NODE_RANK"
STANDALONE = "PET_STANDALONE"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")  # of a Secret; the last one is optional


def of_key(key: str) -> str:
    """The variable with a key of the Secret in `credentialsSecret`: `AWS_SESSION_TOKEN` is one of KEYS."""
    return f"HOLDFAST_CHECKPOINT_{key[len('AWS_') :]}"


def has_several_nodes(environment: Mapping[str, str]) -> bool:
    """True in a pod of an attempt with several nodes."""
    return environment.get(NODES, "1") not in ("", "1")


def is_first(environment: Mapping[str, str]) -> bool:
    """True in the first pod of an attempt."""
    return environment.get(RANK, "0") in ("", "0")


def is_one_process(environment: Mapping[str, str]) -> bool:
    """True if each node of the attempt has one process, which needs no torchrun."""
    return environment.get(PROCESSES, "1") == "1"


class Variable(NamedTuple):
    """One variable: what sets it, and its value in words (Markdown)."""

    name: str
    by: str
    value: str


OPERATOR, KUBERNETES, LAUNCHER = "operator", "Kubernetes", "launcher"
TABLE = (
    Variable(NAMESPACE, OPERATOR, "namespace of the TrainingJob"),
    Variable(JOB, OPERATOR, "name of the TrainingJob"),
    Variable(JOB_UID, OPERATOR, "UID of the TrainingJob, the same in all attempts"),
    Variable(ATTEMPT, OPERATOR, "number of the attempt, from 1; also the fencing token"),
    Variable(PREDECESSOR, OPERATOR, "number of the attempt that still trains, if this one is a successor"),
    Variable(NODES, OPERATOR, "number of pods of the attempt"),
    Variable(RANK, OPERATOR, "rank of the pod in its attempt, from 0"),
    Variable(TIER, OPERATOR, "name of the tier"),
    Variable(ACCELERATORS, OPERATOR, "accelerators of the pod; 0 on a tier without"),
    Variable(GOAL_STEPS, OPERATOR, "`goal.steps`"),
    Variable(POD_NAME, OPERATOR, "name of the pod"),
    Variable(POD_UID, KUBERNETES, "UID of the pod"),
    Variable(POD_IP, KUBERNETES, "address of the pod, with several nodes"),
    *(
        Variable(of_key(key), KUBERNETES, f"`{key}` of the Secret in `credentialsSecret`, as the container started")
        for key in KEYS
    ),
    Variable(SETTINGS, OPERATOR, "the settings of the job for its pod, [one document](#settings)"),
    Variable(TERMINATION_LOG, OPERATOR, "file for the one line that says why the pod ended"),
    Variable(LAUNCHER_DIR, OPERATOR, "folder for the launcher (init container only)"),
    Variable(CODE_DIR, OPERATOR, "folder with `trainer.code`; only if that is set"),
    Variable(DEPENDENCIES_DIR, OPERATOR, "folder with `trainer.code.dependencies`; only if that is set"),
    Variable(
        NEWEST_CHECKPOINT,
        LAUNCHER,
        "path of the newest save in `checkpoint.folder` when the program starts, for "
        "[its option](../how-to/programs-as-they-are.md#how-the-program-resumes); only if there is one",
    ),
    Variable(VERDICT_DIR, LAUNCHER, "folder in which ranks say how they ended"),
    Variable(
        MLFLOW_RUN_URL,
        LAUNCHER,
        "web address of the run in `MLFLOW_RUN_ID`; only if the launcher "
        "[has asked for that run](../how-to/track-experiments.md#mlflow)",
    ),
    Variable(KEEPER, LAUNCHER, "with several nodes: socket of the launcher, which keeps copies of the state in memory"),
    Variable(
        IN_PLACE,
        LAUNCHER,
        "with several nodes and one process on each: folder in which a program that "
        "[restarts in place](../how-to/several-nodes.md#restart-in-place) speaks with the launcher",
    ),
)
