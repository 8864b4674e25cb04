"""Paths of the API server."""

from holdfast.api import names

JOBS = f"/apis/{names.API_VERSION}/{names.JOB_PLURAL}"
PROFILES = f"/apis/{names.API_VERSION}/{names.PROFILE_PLURAL}"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
SUBJECT_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def job(namespace: str, name: str) -> str:
    """One TrainingJob."""
    return f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.JOB_PLURAL}/{name}"


def core(namespace: str, resource: str, name: str = "") -> str:
    """A namespaced object of the core group, or the collection."""
    return f"/api/v1/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def node_claim(name: str) -> str:
    """A NodeClaim of Karpenter."""
    return f"/apis/karpenter.sh/v1/nodeclaims/{name}"


def lease(namespace: str, name: str = "") -> str:
    """A Lease, or the collection."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases" + (f"/{name}" if name else "")
