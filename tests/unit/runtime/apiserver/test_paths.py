from holdfast.runtime.apiserver import paths


def test_paths_of_objects_and_of_collections() -> None:
    assert paths.JOBS == "/apis/holdfast.dev/v1alpha1/trainingjobs"
    assert paths.job("ns", "a") == "/apis/holdfast.dev/v1alpha1/namespaces/ns/trainingjobs/a"
    assert paths.core("ns", "pods") == "/api/v1/namespaces/ns/pods"
    assert paths.core("ns", "pods", "p") == "/api/v1/namespaces/ns/pods/p"
    assert paths.lease("ns") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    assert paths.lease("ns", "l") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
