import copy
from typing import Any

import pytest
from tests.support.operator.fake_api_server import raw_pod

from holdfast.api import names
from holdfast.core.decision import DeletePod
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Key
from holdfast.runtime.pod_writer import RELEASE_TRIES, PodWriter, is_namespace_terminating, is_refusal

PODS = "/api/v1/namespaces/ns/pods"
A = Key("ns", "a")


@pytest.fixture
def pods(bench: Any) -> PodWriter:
    return PodWriter(bench.writer, bench.cache)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (ApiError(403, "Forbidden", "exceeded quota"), True),
        (ApiError(422, "Invalid", "spec.containers"), True),
        (ApiError(500, "InternalError", "failed calling webhook"), True),
        (ApiError(500, "InternalError", "etcd is full"), False),
        (ApiError(429, "TooManyRequests", "later"), False),
        (ApiError(0, "Unreachable", "no answer"), False),
    ],
)
def test_an_error_that_may_pass_is_not_a_refusal(error: ApiError, refusal: bool) -> None:
    assert is_refusal(error) is refusal


def test_a_namespace_that_is_being_deleted_is_recognised() -> None:
    assert is_namespace_terminating(ApiError(403, "Forbidden", "x because it is being terminated"))
    assert is_namespace_terminating(ApiError(404, "NotFound", "namespaces not found"))
    assert not is_namespace_terminating(ApiError(403, "Forbidden", "exceeded quota"))


async def test_a_delete_names_the_uid_and_spares_another_pod_of_the_name(bench: Any, pods: PodWriter) -> None:
    bench.client.put(f"{PODS}/a-1-0", raw_pod(uid="other"))
    await pods.delete(A, DeletePod("a-1-0", "p1", 3))
    assert bench.client.sent("DELETE")[0][1]["preconditions"] == {"uid": "p1"}
    assert f"{PODS}/a-1-0" in bench.client.objects


async def test_release_removes_only_our_finalizer_at_any_index(bench: Any, pods: PodWriter) -> None:
    bench.client.put(f"{PODS}/a-1-0", raw_pod(finalizers=["x/y", names.POD_FINALIZER, "z/w"]))
    await pods.release(A, "a-1-0", "p1")
    assert bench.client.objects[f"{PODS}/a-1-0"]["metadata"]["finalizers"] == ["x/y", "z/w"]


async def test_release_of_another_pod_of_the_name_or_a_deleted_pod_does_nothing(bench: Any, pods: PodWriter) -> None:
    bench.client.put(f"{PODS}/a-1-0", raw_pod(uid="other"))
    before = copy.deepcopy(bench.client.objects)
    await pods.release(A, "a-1-0", "p1")
    await pods.release(A, "gone", "p2")
    assert bench.client.objects == before


async def test_release_gives_up_when_the_finalizers_change_in_every_try(bench: Any, pods: PodWriter) -> None:
    bench.client.put(f"{PODS}/a-1-0", raw_pod(finalizers=["x/y", names.POD_FINALIZER]))
    bench.client.on("PATCH", "a-1-0", *[ApiError(422, "Invalid", "test failed")] * RELEASE_TRIES)
    with pytest.raises(ApiError, match="a-1-0 changed 4 times in a row"):
        await pods.release(A, "a-1-0", "p1")


async def test_unprotect_removes_both_annotations(bench: Any, pods: PodWriter) -> None:
    raw = raw_pod()
    raw["metadata"]["annotations"] = {
        names.ANNOTATION_DO_NOT_DISRUPT: "true",
        names.ANNOTATION_SAFE_TO_EVICT: "false",
        "k": "v",
    }
    bench.client.put(f"{PODS}/a-1-0", raw)
    await pods.unprotect(A, "a-1-0", "p1")
    await pods.unprotect(A, "gone", "p2")
    assert bench.client.objects[f"{PODS}/a-1-0"]["metadata"]["annotations"] == {"k": "v"}


async def test_hold_adds_our_finalizer_to_that_pod_alone(bench: Any, pods: PodWriter) -> None:
    bench.client.put(f"{PODS}/a-1-0", raw_pod(finalizers=[]))
    await pods.hold(A, "a-1-0", "p1")
    await pods.hold(A, "gone", "p2")
    (_, body), _ = bench.client.sent("PATCH")
    assert body == {"metadata": {"uid": "p1", "finalizers": [names.POD_FINALIZER]}}
    bench.client.on("PATCH", "a-1-0", ApiError(422, "Invalid", "no new finalizers can be added: it is being deleted"))
    await pods.hold(A, "a-1-0", "p1")
