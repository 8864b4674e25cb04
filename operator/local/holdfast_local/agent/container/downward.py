"""What a pod can ask about itself: fieldRef and resourceFieldRef."""

import json
import math
import re
from typing import Any

from holdfast_local.agent.errors import EnvError
from holdfast_local.agent.quantity import read_quantity

Object = dict[str, Any]

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class PodFacts:
    """One pod as its containers see it: the object, and the addresses it was given here."""

    def __init__(self, pod: Object, pod_ip: str, host_ip: str, allocatable: dict[str, str]) -> None:
        self.pod = pod
        self.pod_ip = pod_ip
        self.host_ip = host_ip
        self._allocatable = allocatable

    def field(self, path: str) -> str:
        """The value at a field path. Raises EnvError for a path that a kubelet does not know either."""
        meta, spec = self.pod["metadata"], self.pod["spec"]
        plain = {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
            "status.podIP": self.pod_ip,
            "status.podIPs": self.pod_ip,
            "status.hostIP": self.host_ip,
            "status.hostIPs": self.host_ip,
        }
        if path in plain:
            return str(plain[path])
        if path in ("metadata.labels", "metadata.annotations"):
            pairs = meta.get(path.removeprefix("metadata.")) or {}
            return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(pairs.items()))
        keyed = _KEYED.fullmatch(path)
        if keyed:
            return str((meta.get(keyed[1]) or {}).get(keyed[2], ""))
        raise EnvError(f"unsupported fieldPath: {path}")

    def resource(self, ref: Object, container: Object) -> str:
        """A resourceFieldRef: requests or limits of a container, in units of the divisor, rounded up.

        A limit that is not set is the node's allocatable, as a kubelet answers.
        """
        name = ref.get("containerName") or container["name"]
        everyone = self.pod["spec"].get("initContainers", []) + self.pod["spec"]["containers"]
        owner = next((one for one in everyone if one["name"] == name), None)
        if owner is None:
            raise EnvError(f"container {name} not found")
        kind, _, resource = ref["resource"].partition(".")
        value = owner.get("resources", {}).get(kind, {}).get(resource)
        if value is None:
            value = self._allocatable.get(resource, "0") if kind == "limits" else "0"
        divisor = read_quantity(ref.get("divisor") or "1") or 1
        return str(math.ceil(read_quantity(value) / divisor))
