import pytest
from tests.support.operator.fake_api_server import FakeClient, raw_pod

from holdfast.api import names
from holdfast.api.rbac import LEASE, SERVING_SECRET
from holdfast.runtime.apiserver import paths
from holdfast.runtime.errors import ApiError
from holdfast.runtime.housekeeping.uninstall import release_all

PODS = "/api/v1/namespaces/ns/pods"


async def test_every_pod_loses_our_finalizer_and_keeps_the_others() -> None:
    client = FakeClient()
    client.put(f"{PODS}/a-1-0", raw_pod())
    client.put(f"{PODS}/b-1-0", raw_pod("b-1-0", "p2", finalizers=["x/y", names.POD_FINALIZER]))
    client.put(f"{PODS}/c-1-0", raw_pod("c-1-0", "p3", finalizers=["x/y"]))
    assert await release_all(client, "system") == 2
    left = {path.rpartition("/")[2]: raw["metadata"]["finalizers"] for path, raw in client.objects.items()}
    assert left == {"a-1-0": [], "b-1-0": ["x/y"], "c-1-0": ["x/y"]}


async def test_a_pod_that_cannot_be_released_does_not_stop_the_others() -> None:
    client = FakeClient()
    for name in ("a-1-0", "b-1-0", "c-1-0"):
        client.put(f"{PODS}/{name}", raw_pod(name, name))
    client.put(lease := paths.lease("system", LEASE), {"metadata": {}})
    client.on("PATCH", "b-1-0", ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="Forbidden"):
        await release_all(client, "system")
    left = {path for path, raw in client.objects.items() if raw["metadata"]["finalizers"]}
    assert left == {f"{PODS}/b-1-0"}
    assert lease not in client.objects


async def test_what_only_an_operator_uses_is_deleted_and_may_be_gone_already() -> None:
    """Breaks if an uninstallation leaves a held Lease or a private key."""
    client = FakeClient()
    left = "/api/v1/namespaces/system/secrets/another"
    for path in (paths.lease("system", LEASE), paths.core("system", "secrets", SERVING_SECRET), left):
        client.put(path, {"metadata": {}})
    for _ in range(2):
        assert await release_all(client, "system") == 0
        assert list(client.objects) == [left]


async def test_a_right_that_is_missing_is_an_error() -> None:
    client = FakeClient()
    client.on("DELETE", "leases", ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="Forbidden"):
        await release_all(client, "system")
