"""The pod that a bearer token belongs to, from a TokenReview of the API server."""

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester
from holdfast.serve.auth import Identity

POD_UID = "authentication.kubernetes.io/pod-uid"
USER = "system:serviceaccount:"


class TokenReviewer:
    """Lets the API server review tokens."""

    def __init__(self, client: Requester) -> None:
        self._client = client

    async def __call__(self, token: str) -> Identity | None:
        """The pod of the token; None if it is invalid, for another audience, or not bound to a pod. Raises ApiError."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [names.TOKEN_AUDIENCE]},
        }
        answer = await self._client.request("POST", paths.TOKEN_REVIEWS, body=body, timeout=10.0)
        status = answer.get("status") or {}
        user = status.get("user") or {}
        uids = (user.get("extra") or {}).get(POD_UID) or []
        username = str(user.get("username") or "")
        valid = status.get("authenticated") is True and names.TOKEN_AUDIENCE in (status.get("audiences") or ())
        if not (valid and len(uids) == 1 and username.startswith(USER)):
            return None
        return Identity(namespace=username.removeprefix(USER).partition(":")[0], pod_uid=uids[0])
