from pathlib import Path

import pytest

from holdfast.runtime.apiserver.client import Client, resource_of
from holdfast.runtime.errors import ApiError, NoClusterError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ("pods", False)),
        ("/api/v1/nodes/n1", ("nodes", True)),
        ("/api/v1/namespaces", ("namespaces", False)),
        ("/api/v1/namespaces/x", ("namespaces", True)),
        ("/api/v1/namespaces/x/pods", ("pods", False)),
        ("/api/v1/namespaces/x/pods/y", ("pods", True)),
        ("/apis/holdfast.dev/v1alpha1/namespaces/x/trainingjobs/y/status", ("trainingjobs/status", True)),
        ("/apis/holdfast.dev/v1alpha1/trainingjobs", ("trainingjobs", False)),
        ("/version", ("other", False)),
    ],
)
def test_the_resource_of_a_path(path: str, expected: tuple[str, bool]) -> None:
    assert resource_of(path) == expected


async def test_a_missing_kubeconfig_is_named() -> None:
    with pytest.raises(NoClusterError, match="/nowhere"):
        await Client.from_kubeconfig(Path("/nowhere"))


async def test_a_kubeconfig_without_a_context_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("kind: Config")
    with pytest.raises(NoClusterError, match=f"kubeconfig {tmp_path}/config cannot be used: .*current-context"):
        await Client.from_kubeconfig(tmp_path / "config")


def test_kinds_of_errors() -> None:
    assert ApiError(409, "AlreadyExists", "x").already_exists
    assert not ApiError(409, "AlreadyExists", "x").conflict
    assert ApiError(409, "Conflict", "x").conflict
    assert all(ApiError(status, "x", "y").transient for status in (0, 429, 500, 503))
    assert not any(ApiError(status, "x", "y").transient for status in (400, 403, 404, 409, 422))
