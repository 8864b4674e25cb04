"""Service-account tokens of projected volumes: asked for the pod, renewed before they end."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast_local.agent.api import ApiClient

Object = dict[str, Any]

RENEW_AT = 0.8
LONGEST = timedelta(hours=24)


@dataclass(frozen=True)
class Token:
    """A token and its life."""

    value: str
    issued: datetime
    expires: datetime

    def renew_at(self) -> datetime:
        """80% of its life, or a day where that is earlier, as a kubelet renews."""
        return self.issued + min((self.expires - self.issued) * RENEW_AT, LONGEST)


def token_request(pod: Object, source: Object) -> Object:
    """The TokenRequest of a serviceAccountToken source, bound to the pod."""
    meta = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    spec: Object = {"boundObjectRef": bound, "expirationSeconds": source.get("expirationSeconds", 3600)}
    if source.get("audience"):
        spec["audiences"] = [source["audience"]]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def request_token(api: ApiClient, pod: Object, source: Object) -> Token:
    """Ask for a token. Raises ApiError or ApiUnreachableError."""
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName") or "default"
    issued = datetime.now(UTC)
    answer = await api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", token_request(pod, source)
    )
    status = answer["status"]
    return Token(status["token"], issued, datetime.fromisoformat(status["expirationTimestamp"]))
