"""Whether a node takes a pod, in a kubelet's order and words. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from holdfast_local.agent.quantity import read_quantity

Object = dict[str, Any]


@dataclass(frozen=True)
class Rejection:
    """Why the node refused the pod: it becomes status.reason and status.message of a Failed pod."""

    reason: str
    message: str


def requests(pod: Object) -> dict[str, Fraction]:
    """What a pod asks for: the sum over its containers, or one init container where that is more; and one pod."""
    total: dict[str, Fraction] = {}
    for container in pod["spec"]["containers"]:
        for name, value in _requests(container).items():
            total[name] = total.get(name, Fraction(0)) + value
    for container in pod["spec"].get("initContainers") or []:
        for name, value in _requests(container).items():
            total[name] = max(total.get(name, Fraction(0)), value)
    for name, value in (pod["spec"].get("overhead") or {}).items():
        total[name] = total.get(name, Fraction(0)) + read_quantity(value)
    return {**total, "pods": Fraction(1)}


def _requests(container: Object) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    wanted = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return {name: read_quantity(value) for name, value in wanted.items()}


def admit(
    pod: Object, active: Iterable[Object], allocatable: dict[str, str], labels: dict[str, str], node: str
) -> Rejection | None:
    """The kubelet's refusal, or None if the pod may run beside the active ones."""
    for volume in pod["spec"].get("volumes") or []:
        if "hostPath" in volume:
            return Rejection(
                "HostPathNotAllowed",
                f"Pod was rejected: volume {volume['name']}: hostPath {volume['hostPath'].get('path', '')} is not "
                "allowed in the local cluster, whose pods are processes of this machine; use emptyDir, configMap, "
                "secret, projected or a persistentVolumeClaim",
            )
    sidecar = next(
        (one for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"), None
    )
    if sidecar is not None:
        return Rejection(
            "SidecarNotSupported",
            f"Pod was rejected: initContainer {sidecar['name']} has restartPolicy Always, which the local cluster does "
            "not run; make it an ordinary container",
        )
    if not _matches(pod["spec"], labels, node):
        return Rejection("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed")
    return _fits(pod, active, allocatable)


def _fits(pod: Object, active: Iterable[Object], allocatable: dict[str, str]) -> Rejection | None:
    used: dict[str, Fraction] = {}
    for other in active:
        for name, value in requests(other).items():
            used[name] = used.get(name, Fraction(0)) + value
    wanted = requests(pod)
    for name in sorted(wanted, key=lambda one: (one != "pods", one)):
        have = read_quantity(allocatable.get(name, "0"))
        if wanted[name] > 0 and used.get(name, Fraction(0)) + wanted[name] > have:
            scale = 1000 if name == "cpu" else 1
            numbers = [int(value * scale) for value in (wanted[name], used.get(name, Fraction(0)), have)]
            return Rejection(
                f"OutOf{name}",
                f"Pod was rejected: Node didn't have enough resource: {name}, "
                f"requested: {numbers[0]}, used: {numbers[1]}, capacity: {numbers[2]}",
            )
    return None


def _matches(spec: Object, labels: dict[str, str], node: str) -> bool:
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term(term, labels, node) for term in required.get("nodeSelectorTerms") or [])


def _term(term: Object, labels: dict[str, str], node: str) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(_expression(one, labels) for one in expressions) and all(
        _expression(one, {"metadata.name": node}) for one in fields
    )


def _expression(expression: Object, labels: dict[str, str]) -> bool:
    value, operator, values = labels.get(expression["key"]), expression["operator"], expression.get("values") or []
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
