"""The rights of the operator: the only source for the chart and for the local cluster.

No right is wider than the code needs. The operator can read Secrets in its own namespace only.
"""

from typing import Any, Final

from holdfast.api import names

Rule = dict[str, Any]

NAME: Final = "holdfast"
LEASE: Final = "holdfast"
SERVING_SECRET: Final = "holdfast-serving"  # noqa: S105 - the name of a Secret

CLUSTER_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [names.GROUP], "resources": [names.JOB_PLURAL], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": [names.GROUP], "resources": [f"{names.JOB_PLURAL}/status"], "verbs": ["patch"]},
    {"apiGroups": [names.GROUP], "resources": [names.PROFILE_PLURAL], "verbs": ["list", "watch"]},
    {"apiGroups": [names.GROUP], "resources": [f"{names.PROFILE_PLURAL}/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "create", "patch"]},
    # The certificate that pods trust: one ConfigMap per namespace. RBAC cannot limit `create` to a name.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [names.CA_CONFIG_MAP],
        "verbs": ["get", "patch", "delete"],
    },
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    # The users that may read /metrics.
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
)
"""Rules in every namespace."""

KARPENTER_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["get"]},
)
"""Rules in a cluster with Karpenter: when a node is ended stands on its NodeClaim."""

NAMESPACE_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE],
        "verbs": ["get", "update"],
    },
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SERVING_SECRET], "verbs": ["get"]},
)
"""Rules in the operator's own namespace."""

_API: Final = "rbac.authorization.k8s.io"


def manifests(namespace: str) -> list[dict[str, Any]]:
    """The service account, its roles and their bindings, for an operator that runs in `namespace`."""
    labels = {"app.kubernetes.io/name": NAME}
    local = {"name": NAME, "namespace": namespace, "labels": labels}
    # Names of cluster-wide objects contain the namespace, so that two installations do not share rights.
    wide = {"name": f"{NAME}:{namespace}", "labels": labels}
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": local},
        {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": wide, "rules": list(CLUSTER_RULES)},
        _binding("ClusterRole", wide, subject),
        {"apiVersion": f"{_API}/v1", "kind": "Role", "metadata": local, "rules": list(NAMESPACE_RULES)},
        _binding("Role", local, subject),
    ]


def _binding(kind: str, metadata: dict[str, Any], subject: dict[str, str]) -> dict[str, Any]:
    role = {"apiGroup": _API, "kind": kind, "name": metadata["name"]}
    return {
        "apiVersion": f"{_API}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": role,
        "subjects": [subject],
    }
