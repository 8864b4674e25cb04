"""Good manifests, and how to make bad ones of them."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]


class _Removed:
    """Stands for a field that is taken away."""


REMOVED: Final = _Removed()

TIER: Final = {
    "name": "spot",
    "kind": "Spot",
    "accelerator": "nvidia.com/gpu",
    "nodeSelector": {"holdfast.dev/tier": "spot"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "pricePerNodeHour": "3.06",
    "acquireTimeout": "5m",
    "pace": "2s500ms",
}

GOOD: Final[Manifest] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "good"},
    "spec": {
        "trainer": {
            "image": "registry.example/train:1",
            "command": ["python3", "train.py"],
            "env": [{"name": "SEED", "value": "1"}],
            "volumes": [{"name": "data", "mountPath": "/data", "emptyDir": {}}],
            "resources": {"cpu": 4, "memory": "8Gi"},
        },
        "capacity": {"tiers": [TIER]},
        "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "vision/vit"}}},
    },
}

GOOD_PROFILE: Final[Manifest] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "CapacityProfile",
    "metadata": {"name": "good"},
    "spec": {
        "tiers": [TIER, {"name": "cpu", "kind": "CPU", "runtimeClassName": "runc", "extraResources": {"rdma/hca": 1}}]
    },
}


@dataclass(frozen=True, slots=True)
class Bad:
    """One mistake: `change` maps paths (parts between slashes, list positions as numbers) to new values.

    A refusal must mention the field, the value (or what is wrong with it) and what is allowed. The server's words and
    ours differ where the schema language has no words of its own; then `offline` holds ours.
    """

    name: str
    change: Mapping[str, Any]
    field: str
    value: str
    allowed: str
    offline: str = ""
    profile: bool = False

    def manifest(self) -> Manifest:
        """The good manifest with this mistake in it."""
        return changed(GOOD_PROFILE if self.profile else GOOD, self.change)


def changed(manifest: Manifest, change: Mapping[str, Any]) -> Manifest:
    """A copy of `manifest` with some fields set or REMOVED."""
    result = copy.deepcopy(manifest)
    for path, value in change.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        place: Any = result
        for part in parents:
            place = place[part] if isinstance(part, int) else place.setdefault(part, {})
        if value is REMOVED:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    return result
