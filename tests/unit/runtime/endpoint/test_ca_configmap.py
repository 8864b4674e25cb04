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


async def test_a_namespace_that_was_created_again_gets_its_config_map_with_its_next_pod(
    bench: Any, ca: CaConfigMap
) -> None:
    await ca.ensure("ns")
    del bench.client.objects[PATH]
    bench.clock.tick(30)
    assert ca.knows("ns")
    await ca.ensure("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT"}


async def test_a_check_does_not_trust_what_was_seen_before(bench: Any, ca: CaConfigMap) -> None:
    await ca.ensure("ns")
    bench.client.put(PATH, {"metadata": {}, "data": {"ca.crt": "FORGED"}})
    await ca.check("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT"}


async def test_a_config_map_that_a_user_made_immutable_is_replaced(bench: Any, ca: CaConfigMap) -> None:
    bench.client.put(PATH, {"metadata": {"uid": "theirs"}, "immutable": True, "data": {"ca.crt": "FORGED"}})
    bench.client.on("PATCH", "configmaps", ApiError(422, "Invalid", "field is immutable"))
    await ca.ensure("ns")
    assert bench.client.objects[PATH]["data"] == {"ca.crt": "CERT"}
    assert bench.client.sent("DELETE")[0][1]["preconditions"] == {"uid": "theirs"}


async def test_after_an_error_the_namespace_is_not_known(bench: Any, ca: CaConfigMap) -> None:
    await ca.ensure("ns")
    bench.clock.tick(CHECK_EVERY)
    bench.client.on("GET", "configmaps", ApiError(403, "Forbidden", "no"))
    with pytest.raises(ApiError):
        await ca.ensure("ns")
    assert not ca.knows("ns")
