"""What a container is given: environment, volumes, rewritten paths, tokens."""

import base64
import json
from pathlib import Path

import pytest
from tests.support.cluster.agent_pods import (
    TRAINER,
    container,
    logs,
    pod,
    run,
    until_logged,
    until_phase,
    until_waiting,
)
from tests.support.cluster.local_cluster import apply, get

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster


def _secret(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def _config_map(name: str, data: dict[str, str]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_every_source_of_environment(cluster: Cluster, namespace: str) -> None:
    """Would break: HOLDFAST_POD_UID, credentials and everything else that the operator hands to the trainer."""
    apply(cluster, _secret("s", key="hidden"), _config_map("c", {"colour": "green", "size": "9"}), namespace=namespace)

    def field(name: str, path: str) -> dict[str, object]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)b $(C) $$(A)"},
        field("NAME", "metadata.name"),
        field("NS", "metadata.namespace"),
        field("UID_", "metadata.uid"),
        field("LABEL", "metadata.labels['team']"),
        field("NODE", "spec.nodeName"),
        field("IP", "status.podIP"),
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other", "optional": True}}},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "colour"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    main = container(
        "env -0 | sort -z | tr '\\0' '\\n'", env=env, envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}]
    )
    main["resources"] = {"limits": {"cpu": "1500m"}}
    main["args"] = ["$(A)"]
    body = pod("a", main, nodeName="cpu-1")
    body["metadata"]["labels"] = {"team": "vision"}
    run(cluster, namespace, body)
    seen = until_phase(cluster, namespace, "a", "Succeeded")
    found = dict(line.split("=", 1) for line in logs(cluster, namespace, "a").splitlines())
    assert (found["A"], found["B"]) == ("a", "ab $(C) $(A)")
    assert (found["NAME"], found["NS"], found["NODE"]) == ("a", namespace, "cpu-1")
    assert found["UID_"] == get(cluster, "pod/a", namespace)["metadata"]["uid"]
    assert (found["LABEL"], found["IP"], found["CPU"]) == ("vision", seen["podIP"], "2")
    assert (found["SECRET"], found["MAP"], found["P_size"]) == ("hidden", "green", "9")
    assert "NONE" not in found
    assert "VIRTUAL_ENV" not in found
    assert found["HOSTNAME"] == "a"


def test_a_missing_secret_is_named_and_waited_for(cluster: Cluster, namespace: str) -> None:
    """Would break: misconfiguration that the operator cannot tell from slow capacity."""
    env = [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "late", "key": "key"}}}]
    run(cluster, namespace, pod("a", container("echo $K", env=env)))
    assert until_waiting(cluster, namespace, "a", "CreateContainerConfigError")["message"] == 'secret "late" not found'
    apply(cluster, _secret("late", other="x"), namespace=namespace)
    words = f"couldn't find key key in Secret {namespace}/late"
    waiting = until_waiting(cluster, namespace, "a", "CreateContainerConfigError")
    assert waiting["message"] in (words, 'secret "late" not found')
    apply(cluster, _secret("late", key="here"), namespace=namespace)
    until_phase(cluster, namespace, "a", "Succeeded")
    assert logs(cluster, namespace, "a") == "here\n"


def test_volumes_and_rewritten_paths(cluster: Cluster, namespace: str) -> None:
    """Would break: every mounted file of every training pod."""
    apply(
        cluster, _secret("s", key="hidden"), _config_map("c", {"a.txt": "alpha", "b.txt": "beta"}), namespace=namespace
    )
    volumes = [
        {"name": "e", "emptyDir": {"medium": "Memory"}},
        {"name": "c", "configMap": {"name": "c", "items": [{"key": "a.txt", "path": "sub/renamed"}]}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "o", "configMap": {"name": "absent", "optional": True}},
        {"name": "p", "projected": {"sources": [
            {"configMap": {"name": "c"}},
            {"downwardAPI": {"items": [{"path": "who", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}},
    ]  # fmt: skip
    mounts = [
        {"name": "e", "mountPath": "/work"},
        {"name": "e", "mountPath": "/work/deep", "subPath": "inner"},
        {"name": "c", "mountPath": "/config"},
        {"name": "s", "mountPath": "/secret"},
        {"name": "o", "mountPath": "/optional"},
        {"name": "p", "mountPath": "/projected"},
    ]
    script = (
        "cat /config/sub/renamed /secret/key /projected/b.txt /projected/who; echo; stat -c %a /secret/key; "
        'ls /optional; echo x > "$OUT/file"; cat /work/inner/file; echo "$1" "$URI"'
    )
    env = [{"name": "OUT", "value": "/work/deep"}, {"name": "URI", "value": "file:///work/runs"}]
    main = container(script, env=env, volumeMounts=mounts)
    main["args"] = ["sh", "--out=/work/x:/workshop"]
    run(cluster, namespace, pod("a", main, volumes=volumes))
    until_phase(cluster, namespace, "a", "Succeeded")
    lines = logs(cluster, namespace, "a").splitlines()
    assert lines[:3] == ["alphahiddenbetaa", "400", "x"]
    out, uri = lines[3].split()
    real = Path(uri.removeprefix("file://"))
    assert out == f"--out={real.parent}/x:/workshop"
    assert real.parent.is_relative_to(cluster.root)


def test_a_projected_token_is_bound_to_the_pod(cluster: Cluster, namespace: str) -> None:
    """Would break: the progress endpoint cannot know which pod reports."""
    source = {"serviceAccountToken": {"audience": "holdfast", "path": "token", "expirationSeconds": 600}}
    mounts = [{"name": "t", "mountPath": "/holdfast/token"}]
    main = container(
        "cat $T; echo; sleep 1000", env=[{"name": "T", "value": "/holdfast/token/token"}], volumeMounts=mounts
    )
    run(cluster, namespace, pod("a", main, volumes=[{"name": "t", "projected": {"sources": [source]}}]))
    token = until_logged(cluster, namespace, "a", ".").strip()
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["holdfast"]},
    }
    answer = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["authenticated"] is True
    extra = answer["status"]["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [get(cluster, "pod/a", namespace)["metadata"]["uid"]]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 600


def test_a_claim_on_a_local_volume(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """Would break: checkpoints on a persistent volume."""
    node = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["cpu-1"]}]}
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "local": {"path": str(tmp_path)}, "nodeAffinity": {"required": {"nodeSelectorTerms": [node]}},
        "claimRef": {"namespace": namespace, "name": "claim"},
    }  # fmt: skip
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    apply(
        cluster, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"pv-{namespace}"}, "spec": spec}
    )
    try:
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": claim}
        apply(cluster, body, namespace=namespace)
        main = container("echo kept > /runs/file", volumeMounts=[{"name": "v", "mountPath": "/runs"}])
        run(
            cluster, namespace, pod("a", main, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}])
        )
        until_phase(cluster, namespace, "a", "Succeeded")
        assert (tmp_path / "file").read_text() == "kept\n"
    finally:
        cluster.kubectl("delete", "pv", f"pv-{namespace}", "--wait=false")


def test_image_path_and_working_directory(cluster: Cluster, namespace: str) -> None:
    """Would break: the trainer's Python is not found."""
    main = {
        "name": "main",
        "image": TRAINER,
        "workingDir": "/app",
        "command": ["python3", "-c", "import os, sys; print(sys.prefix, os.getcwd(), sep=chr(10))"],
    }
    run(cluster, namespace, pod("a", main))
    until_phase(cluster, namespace, "a", "Succeeded")
    prefix, cwd = logs(cluster, namespace, "a").splitlines()
    assert Path(prefix, "bin", "holdfast").exists()
    assert cwd.endswith("/app")
