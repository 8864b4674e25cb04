"""What a job in a local cluster may refer to: the CapacityProfile `default`, and the Secret with the keys of S3."""

from typing import Any, Final

from holdfast.api import names
from holdfast_local.state import S3Access

PROFILE: Final = "default"
SECRET: Final = "holdfast-storage"  # noqa: S105 - the name of a Secret
NAMESPACE: Final = "default"  # of the Secret
IMAGE: Final = "holdfast.dev/trainer:local"
PREFIX: Final = "jobs"

# Short, because a local cluster has its nodes or has not; a cloud needs minutes to bring one.
_ACQUIRE: Final = "4s"
_LAST_ACQUIRE: Final = "1m"
_GPU: Final = "nvidia.com/gpu"
_TIERS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "spot", "kind": "Spot", "accelerator": _GPU, "pricePerNodeHour": "0.92", "acquireTimeout": _ACQUIRE},
    {
        "name": "dedicated",
        "kind": "Dedicated",
        "accelerator": _GPU,
        "pricePerNodeHour": "3.06",
        "acquireTimeout": _ACQUIRE,
    },
    {"name": "cpu", "kind": "CPU", "pricePerNodeHour": "0.40", "acquireTimeout": _LAST_ACQUIRE},
)


def manifests(s3: S3Access | None) -> list[dict[str, Any]]:
    """The CapacityProfile of the default nodes, and with an S3 server its Secret, and storage in the profile."""
    tiers = [{**tier, "nodeSelector": {names.LABEL_TIER: tier["name"]}} for tier in _TIERS]
    defaults: dict[str, Any] = {"image": IMAGE}
    profile = {
        "apiVersion": names.API_VERSION,
        "kind": "CapacityProfile",
        "metadata": {"name": PROFILE},
        "spec": {"tiers": tiers, "defaults": defaults},
    }
    if s3 is None:
        return [profile]
    where = {"bucket": s3.bucket, "prefix": PREFIX, "endpoint": s3.endpoint, "region": s3.region}
    defaults["storage"] = {"s3": {**where, "credentialsSecret": SECRET}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "stringData": {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key},
    }
    return [profile, secret]
