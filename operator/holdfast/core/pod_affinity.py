"""The affinity of a pod: the nodes that it must not use, those that it uses last, and its distance from its peers."""

from collections.abc import Sequence
from typing import Any

from holdfast.api import names
from holdfast.api.attempt import Attempt
from holdfast.api.objects import TrainingJob


def pod_affinity(job: TrainingJob, attempt: Attempt, shuns: Sequence[str]) -> dict[str, Any]:
    """The field `affinity` of the pods of an attempt; empty if they may use any node.

    They never use the nodes that the attempt avoids, and use those of `shuns` only if they get no other one.
    """
    nodes = _required(attempt.avoid_nodes) | _preferred(shuns)
    return ({"nodeAffinity": nodes} if nodes else {}) | _apart(job, attempt)


def _required(avoided: Sequence[str]) -> dict[str, Any]:
    if not avoided:
        return {}
    term = {"matchFields": [_not_on(node) for node in avoided]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _preferred(shuns: Sequence[str]) -> dict[str, Any]:
    if not shuns:
        return {}
    terms = [{"weight": 100, "preference": {"matchFields": [_not_on(node)]}} for node in shuns]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def _not_on(node: str) -> dict[str, Any]:
    """A field selector takes one value per requirement."""
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]}


def _apart(job: TrainingJob, attempt: Attempt) -> dict[str, Any]:
    """Each pod of several has a node of its own, so that a lost node interrupts one rank."""
    if attempt.nodes == 1:
        return {}
    own = {"matchLabels": {names.LABEL_JOB_UID: job.metadata.uid}}
    term = {"labelSelector": own, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
