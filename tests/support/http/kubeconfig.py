"""A kubeconfig for a server of a test that takes any token."""

from pathlib import Path

import yaml


def write_kubeconfig(path: Path, port: int, namespace: str | None) -> Path:
    """Write it to `path`, which is returned. `port`: of the server on 127.0.0.1."""
    context = {"cluster": "fake", "user": "me"} | ({"namespace": namespace} if namespace else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "fake", "context": context}],
    }
    path.write_text(yaml.safe_dump(content))
    return path
