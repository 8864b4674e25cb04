from tests.support.operator.fake_api_server import FakeClient, raw_pod

from holdfast.api import names
from holdfast.runtime.housekeeping.uninstall import release_all

PODS = "/api/v1/namespaces/ns/pods"


async def test_every_pod_loses_our_finalizer_and_keeps_the_others() -> None:
    client = FakeClient()
    client.put(f"{PODS}/a-1-0", raw_pod())
    client.put(f"{PODS}/b-1-0", raw_pod("b-1-0", "p2", finalizers=["x/y", names.POD_FINALIZER]))
    client.put(f"{PODS}/c-1-0", raw_pod("c-1-0", "p3", finalizers=["x/y"]))
    assert await release_all(client) == 2
    left = {path.rpartition("/")[2]: raw["metadata"]["finalizers"] for path, raw in client.objects.items()}
    assert left == {"a-1-0": [], "b-1-0": ["x/y"], "c-1-0": ["x/y"]}
