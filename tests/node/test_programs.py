"""Programs, images, volumes and policies that only a real container runtime and kubelet judge."""

from pathlib import Path

import pytest
from tests.node.jobs import completes, train
from tests.support.cluster.local_cluster import apply, patch
from tests.support.cluster.training_jobs import Raw, stub
from tests.support.real_node.images import Images

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.usefixtures("release")


def test_a_restricted_namespace_and_another_user(cluster: Cluster, namespace: str) -> None:
    """Breaks if a pod needs a right that the strictest level forbids, or its log is gone when it has ended."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch(cluster, f"namespace/{namespace}", {"metadata": {"labels": labels}})
    job = train(cluster, namespace, trainer={"securityContext": {"runAsUser": 1000, "runAsGroup": 1000}})
    job.wait_step(1)
    completes(job)


def test_a_root_file_system_that_cannot_be_written(cluster: Cluster, namespace: str) -> None:
    """Breaks if the launcher or the library write outside of volumes."""
    completes(train(cluster, namespace, steps=50, trainer={"securityContext": {"readOnlyRootFilesystem": True}}))


def test_a_sidecar_that_a_policy_adds(cluster: Cluster, namespace: str, images: Images) -> None:
    """Breaks if a container that never ends keeps the pod of a training from its end."""
    patch(cluster, f"namespace/{namespace}", {"metadata": {"labels": {"test/sidecar": "yes"}}})
    cluster.kubectl("apply", "-f", "-", stdin=_SIDECAR.format(image=images.base))
    completes(train(cluster, namespace, steps=50))


_SIDECAR = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: native-sidecar}}
spec:
  matchConstraints:
    namespaceSelector: {{matchLabels: {{test/sidecar: "yes"}}}}
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
  reinvocationPolicy: Never
  failurePolicy: Fail
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{{op: "add", path: "/spec/initContainers/0", value: Object.spec.initContainers{{
          name: "proxy", image: "{image}", imagePullPolicy: "Never", restartPolicy: "Always",
          command: ["sleep", "infinity"]}}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: native-sidecar}}
spec: {{policyName: native-sidecar}}
"""


@pytest.mark.parametrize("user", [0, 1000])
def test_a_volume_of_the_node_for_checkpoints(cluster: Cluster, namespace: str, tmp_path: Path, user: int) -> None:
    """Breaks if the user of the program cannot write into a folder that belongs to root."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o755)
    apply(cluster, *_volume(folder, namespace), namespace=namespace)
    job = train(
        cluster,
        namespace,
        trainer={"securityContext": {"runAsUser": user, "runAsGroup": user}},
        checkpoint={"storage": {"volumeClaim": {"name": "checkpoints", "path": "runs"}}},
    )
    job.wait_checkpoint(20)
    completes(job)
    assert list(folder.rglob("*")), "the checkpoints are on the volume"


def _volume(folder: Path, namespace: str) -> tuple[Raw, Raw]:
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand"}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["real-1"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "checkpoints"},
        "spec": {**common, "volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}},
    }
    return volume, claim


def test_an_image_with_an_entry_point(cluster: Cluster, namespace: str, images: Images) -> None:
    """Breaks if the entry point of the image runs in place of the launcher."""
    completes(train(cluster, namespace, steps=50, trainer={"image": images.with_entry_point}))


def test_an_image_without_python(cluster: Cluster, namespace: str, images: Images) -> None:
    """Breaks if the job waits for something that cannot come, or the message does not name the command."""
    job = train(cluster, namespace, trainer={"image": images.without_python})
    status = job.wait("the reason", lambda s: "CommandNotFound" in str(s), 90)
    assert "python" in str(status["history"][0].get("message") or status)


def test_a_program_that_takes_more_memory_than_it_may(cluster: Cluster, namespace: str) -> None:
    """Breaks if a kill by the kernel has another name, or the next attempt begins at 0."""
    leak = ["sh", "-c", '[ "$HOLDFAST_ATTEMPT" = 1 ] && more="--leak-memory 8"; exec "$@" $more', "sh"]
    job = train(cluster, namespace, command=[*leak, *stub("--step-seconds", 0.1)], steps=100)
    status = completes(job)
    assert status["history"][0]["reason"] == "OutOfMemory"
    assert status["history"][-1]["resumedStep"] > 0


def test_a_program_that_fills_the_disk_of_its_node(cluster: Cluster, namespace: str) -> None:
    """Breaks if an eviction by the kubelet counts against its node, or the training does not come back."""
    fill = '[ "$HOLDFAST_ATTEMPT" = 1 ] && head -c 80M /dev/zero > /tmp/fills; exec "$@"'
    resources = {"cpu": "800m", "memory": "400Mi", "ephemeralStorage": "40Mi"}
    job = train(
        cluster,
        namespace,
        command=["sh", "-c", fill, "sh", *stub("--step-seconds", 0.1)],
        steps=1500,
        trainer={"resources": resources},
    )
    status = job.wait("the second attempt", lambda s: s.get("attempt", 0) >= 2 and s["phase"] == "Running", 180)
    assert "Evicted" in str(status["history"][0])
    assert status["history"][0]["kind"] == "Failure", "the program did it, and would do it again"
