"""What `holdfast local up` applies is accepted, and fits the nodes and images of a local cluster."""

from holdfast.api.objects import CapacityProfile
from holdfast_local.config import DEFAULT_IMAGES, DEFAULT_NODES
from holdfast_local.installed import objects
from holdfast_local.state import S3Access

S3 = S3Access(endpoint="http://127.0.0.1:9000", access_key="key", secret_key="secret")


# Breaks if the profile is refused, or no longer fits the default nodes: jobs would wait for nodes that never come.
def test_each_tier_has_a_node_and_each_node_a_tier() -> None:
    tiers = CapacityProfile.parse(objects.manifests(S3)[0]).spec.tiers
    for tier in tiers:
        nodes = [node for node in DEFAULT_NODES if tier.node_selector.items() <= node.labels.items()]
        assert nodes, tier.name
        assert all((tier.accelerator in node.capacity.accelerators) == (tier.kind != "CPU") for node in nodes)
        assert tier.price_per_node_hour
    selectors = [tier.node_selector for tier in tiers]
    assert all(any(one.items() <= node.labels.items() for one in selectors) for node in DEFAULT_NODES)


# Breaks if the defaults name an image, a storage or a Secret that the local cluster does not have.
def test_the_defaults_are_what_the_cluster_has() -> None:
    profile, secret = objects.manifests(S3)
    defaults = CapacityProfile.parse(profile).spec.defaults
    assert defaults.image in DEFAULT_IMAGES
    assert defaults.storage is not None
    s3 = defaults.storage.s3
    assert s3 is not None
    assert (s3.endpoint, s3.bucket, s3.region) == (S3.endpoint, S3.bucket, S3.region)
    assert s3.credentials_secret == secret["metadata"]["name"]
    assert secret["stringData"] == {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


# Breaks if a cluster without S3 gets a Secret without keys, or a profile with a storage that is not there.
def test_without_s3_there_is_only_a_profile() -> None:
    (profile,) = objects.manifests(None)
    assert CapacityProfile.parse(profile).spec.defaults.storage is None
