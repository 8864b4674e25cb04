from typing import Any

import pytest

from holdfast.runtime.endpoint.ca_configmap import CHECK_EVERY, CaConfigMap
from holdfast.runtime.errors import ApiError

PATH = "/api/v1/namespaces/ns/configmaps/holdfast-ca"


@pytest.fixture
def ca(bench: Any) -> CaConfigMap:
    return CaConfigMap(bench.writer, "CERT", bench.clock)


async def test_the_config_map_is_created(bench: Any, ca: CaConfigMap) -> None:
    await ca.ensure("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT"}


async def test_the_config_map_is_read_once_in_a_period_and_corrected(bench: Any, ca: CaConfigMap) -> None:
    bench.client.put(PATH, {"metadata": {}, "data": {"ca.crt": "OLD", "other": "x"}})
    for _ in range(3):
        await ca.ensure("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT", "other": "x"}
    assert [method for method, path, _ in bench.client.calls if path == PATH] == ["GET", "PATCH"]
    bench.clock.tick(CHECK_EVERY + 1)
    await ca.ensure("ns")
    assert bench.client.calls[-1][:2] == ("GET", PATH)


async def test_a_config_map_that_another_process_creates_at_the_same_time_is_corrected(
    bench: Any, ca: CaConfigMap
) -> None:
    bench.client.put(PATH, {"metadata": {}, "data": {"ca.crt": "OLD"}})
    bench.client.on("GET", "configmaps", ApiError(404, "NotFound", "not there yet"))
    await ca.ensure("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT"}


async def test_an_error_is_not_remembered(bench: Any, ca: CaConfigMap) -> None:
    bench.client.on("GET", "configmaps", ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError):
        await ca.ensure("ns")
    await ca.ensure("ns")
    assert PATH in bench.client.objects
