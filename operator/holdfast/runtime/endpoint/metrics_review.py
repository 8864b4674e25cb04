"""Whether a bearer token may read /metrics: a TokenReview and a SubjectAccessReview of the API server."""

from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.serve.metrics_endpoint import PATH, Reader


class MetricsReviewer:
    """Lets the API server review tokens and rights."""

    def __init__(self, client: Requester) -> None:
        self._client = client

    async def __call__(self, token: str) -> Reader | None:
        """The user of the token and its right; None if the token is invalid. Raises ApiError."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client.request("POST", paths.TOKEN_REVIEWS, body=body, timeout=10.0)
        status = answer.get("status") or {}
        user = status.get("user") or {}
        name = str(user.get("username") or "")
        if status.get("authenticated") is not True or not name:
            return None
        spec = {"user": name, "nonResourceAttributes": {"path": PATH, "verb": "get"}}
        spec |= {part: user[part] for part in ("groups", "uid", "extra") if user.get(part)}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._client.request("POST", paths.SUBJECT_ACCESS_REVIEWS, body=review, timeout=10.0)
        return Reader(name, (answer.get("status") or {}).get("allowed") is True)
