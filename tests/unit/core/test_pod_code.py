"""What a pod gets for trainer.code."""

from tests.support.decisions.snapshots import CONFIG, attempt, job
from tests.support.trainer.pod_settings import settings_of

from holdfast.core.pod_manifest import build_pod

HASH = "ab" * 32
PATH = "/code"


def build(**trainer):
    trainer = {"image": "registry.example/train:1", "command": ["x"], **trainer}
    return build_pod(job(trainer=trainer), attempt(1), CONFIG, 7200.0)["spec"]


# Breaks if the init container cannot write the folder, if the program does not see it, or does not start in it.
def test_the_folder_of_the_program():
    pod = build(code={"sha256": HASH})
    assert {"name": "holdfast-code", "emptyDir": {}} in pod["volumes"]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {"name": "holdfast-code", "mountPath": PATH} in container["volumeMounts"]
        assert {"name": "HOLDFAST_CODE_DIR", "value": PATH} in container["env"]
        assert settings_of(container).code == HASH
    assert pod["containers"][0]["workingDir"] == PATH


# Breaks if the packages of a program do not come into its pods.
def test_the_packages_of_the_program():
    pod = build(code={"sha256": HASH, "dependencies": "cd" * 32})
    assert {"name": "holdfast-dependencies", "emptyDir": {}} in pod["volumes"]
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {"name": "holdfast-dependencies", "mountPath": "/dependencies"} in container["volumeMounts"]
        assert {"name": "HOLDFAST_DEPENDENCIES_DIR", "value": "/dependencies"} in container["env"]
        assert settings_of(container).dependencies == "cd" * 32
    assert "ependencies" not in str(build(code={"sha256": HASH}))


def test_a_working_directory_of_its_own():
    assert build(code={"sha256": HASH}, workingDir="/work")["containers"][0]["workingDir"] == "/work"


# Breaks if pods of jobs without code change.
def test_without_code():
    pod = build()
    assert "workingDir" not in pod["containers"][0]
    assert "holdfast-code" not in str(pod)
    assert "HOLDFAST_CODE_DIR" not in str(pod)
