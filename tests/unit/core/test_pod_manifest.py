"""The manifest of a training pod: what it must contain, and what a job can never put into it."""

import json

import pytest
from tests.support.decisions.snapshots import CONFIG, TIERS, attempt, job, tier
from tests.support.trainer.pod_settings import settings_of

from holdfast.api.errors import SpecError
from holdfast.api.profile import ProfileTier
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.pod_manifest import build_pod, pod_name

TRAINER = {"image": "registry.example/train:1", "command": ["torchrun", "train.py"], "args": ["--fast"]}


def build(number=3, on=None, config=CONFIG, avoid=(), **changes):
    return build_pod(job(**changes), attempt(number, tier=on or tier(), avoid_nodes=avoid), config, 7200.4)


def env(container):
    """The environment as the program sees it: of two variables of one name, the last counts."""
    return {var["name"]: var.get("value", var.get("valueFrom")) for var in container["env"]}


def trainer(pod):
    return pod["spec"]["containers"][0]


def volumes(pod):
    return {volume["name"]: volume for volume in pod["spec"]["volumes"]}


def test_the_name_is_a_function_of_job_attempt_and_rank():
    assert pod_name("vit", 12, 0) == "vit-12-0"
    assert build(12)["metadata"]["name"] == "vit-12-0"


def test_it_belongs_to_its_job_and_carries_our_finalizer():
    meta = build()["metadata"]
    assert meta["finalizers"] == ["holdfast.dev/end-recorded"]
    assert meta["ownerReferences"] == [{
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob", "name": "vit", "uid": "u-job",
        "controller": True, "blockOwnerDeletion": False,
    }]  # fmt: skip
    assert meta["labels"] == {
        "app.kubernetes.io/managed-by": "holdfast", "holdfast.dev/job": "vit", "holdfast.dev/job-uid": "u-job",
        "holdfast.dev/attempt": "3", "holdfast.dev/rank": "0", "holdfast.dev/tier": "spot",
    }  # fmt: skip
    digest = meta["annotations"].pop("holdfast.dev/made-from")
    assert len(digest) == 16
    assert meta["annotations"] == {
        "karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }  # fmt: skip


def test_the_trainer_runs_under_the_launcher():
    container = trainer(build(trainer=TRAINER))
    launcher = ["python3", "/holdfast/bin/holdfast-run", "--"]
    assert container["command"] == [*launcher, "torchrun", "train.py", "--fast"]
    assert "args" not in container
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_it_never_restarts_and_has_its_grace_period():
    found = build(checkpoint={"storage": {"s3": {"bucket": "runs", "prefix": "p"}}, "gracePeriod": "1500ms"})["spec"]
    assert (found["restartPolicy"], found["terminationGracePeriodSeconds"]) == ("Never", 2)
    assert found["automountServiceAccountToken"] is False


def test_its_environment():
    found = env(trainer(build(goal={"steps": 900})))
    assert found | {
        "HOLDFAST_NAMESPACE": "vision", "HOLDFAST_JOB": "vit", "HOLDFAST_JOB_UID": "u-job", "HOLDFAST_ATTEMPT": "3",
        "HOLDFAST_RANK": "0", "HOLDFAST_NODES": "1", "HOLDFAST_TIER": "spot", "HOLDFAST_ACCELERATORS": "1",
        "HOLDFAST_POD_NAME": "vit-3-0", "HOLDFAST_POD_UID": {"fieldRef": {"fieldPath": "metadata.uid"}},
        "HOLDFAST_GOAL_STEPS": "900", "HOLDFAST_TERMINATION_LOG": "/dev/termination-log",
        "PET_NNODES": "1", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0", "PET_STANDALONE": "1",
        "HOLDFAST_SETTINGS": found["HOLDFAST_SETTINGS"],
    } == found  # fmt: skip


def test_all_values_of_the_environment_are_text():
    """The API server refuses numbers there."""
    for var in trainer(build())["env"]:
        assert isinstance(var.get("value", ""), str), var


def test_the_init_container_has_only_its_identity_and_the_settings():
    pod = build()
    (init,) = pod["spec"]["initContainers"]
    assert init["image"] == CONFIG.init_image
    assert init["command"] == ["holdfast-init"]
    theirs = env(trainer(pod))
    shared = (
        "HOLDFAST_NAMESPACE", "HOLDFAST_JOB", "HOLDFAST_JOB_UID", "HOLDFAST_ATTEMPT", "HOLDFAST_POD_UID",
        "HOLDFAST_TERMINATION_LOG", "HOLDFAST_SETTINGS",
    )  # fmt: skip
    assert env(init) == {**{name: theirs[name] for name in shared}, "HOLDFAST_LAUNCHER_DIR": "/holdfast/bin"}


def test_credentials_come_from_a_secret_and_are_never_written_out():
    storage = {"s3": {"bucket": "runs", "prefix": "p", "endpoint": "https://s3.test", "credentialsSecret": "keys"}}
    found = env(trainer(build(checkpoint={"storage": storage})))
    for suffix, optional in (("ACCESS_KEY_ID", False), ("SECRET_ACCESS_KEY", False), ("SESSION_TOKEN", True)):
        ref = {"name": "keys", "key": f"AWS_{suffix}", "optional": optional}
        assert found[f"HOLDFAST_CHECKPOINT_{suffix}"] == {"secretKeyRef": ref}


def test_keys_that_change_reach_the_pod_as_files_that_every_user_of_it_can_read():
    """Breaks if rotated keys reach only pods that start later, or a trainer of another user cannot read them."""
    storage = {"s3": {"bucket": "runs", "prefix": "p", "credentialsSecret": "keys"}}
    pod = build(checkpoint={"storage": storage})
    names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
    assert volumes(pod)["holdfast-keys"]["secret"] == {
        "secretName": "keys", "defaultMode": 0o444, "optional": True,
        "items": [{"key": name, "path": name} for name in names],
    }  # fmt: skip
    for container in (trainer(pod), init(pod)):
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "holdfast-keys"]
        assert mount == {"name": "holdfast-keys", "mountPath": "/holdfast/keys", "readOnly": True}  # no subPath
        assert settings_of(container).keys_folder == "/holdfast/keys"
    assert "holdfast-keys" not in volumes(build())
    assert settings_of(trainer(build())).keys_folder is None


def test_the_certificates_of_a_ca_reach_init_container_and_trainer_as_a_file():
    """Breaks if one of the two does not trust the storage, or a missing ConfigMap is no reason to wait with a start."""
    s3 = {"bucket": "runs", "prefix": "p", "ca": {"configMap": {"name": "company"}}, "proxy": "http://p:1"}
    pod = build(checkpoint={"storage": {"s3": {**s3, "addressing": "Virtual"}}})
    assert volumes(pod)["holdfast-storage-ca"]["configMap"] == {
        "name": "company", "items": [{"key": "ca.crt", "path": "ca.crt"}], "defaultMode": 0o444,
    }  # fmt: skip
    for container in (trainer(pod), init(pod)):
        mount = {"name": "holdfast-storage-ca", "mountPath": "/holdfast/storage-ca", "readOnly": True}
        assert mount in container["volumeMounts"]
        told = settings_of(container)
        found = (told.checkpoint_ca, told.checkpoint_proxy, told.checkpoint_addressing)
        assert found == ("/holdfast/storage-ca/ca.crt", "http://p:1", "Virtual")
    secret = {"secret": {"name": "tls", "key": "root.pem"}}
    pod = build(checkpoint={"storage": {"s3": {**s3, "ca": secret}}})
    assert volumes(pod)["holdfast-storage-ca"]["secret"] == {
        "secretName": "tls", "items": [{"key": "root.pem", "path": "ca.crt"}], "defaultMode": 0o444,
    }  # fmt: skip


@pytest.mark.parametrize(
    "taken", [{"name": "holdfast-keys", "mountPath": "/x"}, {"name": "x", "mountPath": "/holdfast/keys"}]
)
def test_no_volume_of_a_job_takes_the_place_of_the_keys(taken):
    with pytest.raises(SpecError, match="reserved"):
        build(trainer={**TRAINER, "volumes": [{**taken, "emptyDir": {}}]})


def test_a_volume_claim_is_mounted_for_trainer_and_init():
    pod = build(checkpoint={"storage": {"volumeClaim": {"name": "disk", "path": "runs/vit"}}})
    mount = {"name": "holdfast-checkpoints", "mountPath": "/holdfast/checkpoints"}
    assert mount in trainer(pod)["volumeMounts"]
    assert mount in pod["spec"]["initContainers"][0]["volumeMounts"]
    assert volumes(pod)["holdfast-checkpoints"] == {
        "name": "holdfast-checkpoints", "persistentVolumeClaim": {"claimName": "disk"},
    }  # fmt: skip


def test_the_token_is_bound_to_our_audience_and_the_init_container_has_none():
    pod = build()
    assert volumes(pod)["holdfast-token"]["projected"]["sources"] == [
        {"serviceAccountToken": {"audience": "holdfast", "expirationSeconds": 3600, "path": "token"}}
    ]
    assert {"name": "holdfast-token", "mountPath": "/holdfast/token", "readOnly": True} in trainer(pod)["volumeMounts"]
    assert "holdfast-token" not in {mount["name"] for mount in pod["spec"]["initContainers"][0]["volumeMounts"]}


def test_requests_equal_limits_and_name_the_accelerator():
    found = trainer(build(trainer={**TRAINER, "acceleratorsPerNode": 4, "resources": {"cpu": "16", "memory": "9Gi"}}))
    wanted = {"cpu": "16", "memory": "9Gi", "nvidia.com/gpu": "4"}
    assert found["resources"] == {"requests": wanted, "limits": wanted}
    assert env(found)["PET_NPROC_PER_NODE"] == "4"


def test_a_cpu_tier_asks_for_no_accelerator():
    found = trainer(build(on=tier("cpu")))
    assert found["resources"]["limits"].keys() == {"cpu", "memory"}
    assert (env(found)["HOLDFAST_ACCELERATORS"], env(found)["PET_NPROC_PER_NODE"]) == ("0", "1")


def test_the_tier_decides_where_it_runs():
    fields = {"runtimeClassName": "nvidia", "priorityClassName": "low", "schedulerName": "packs"}
    fields |= {"extraResources": {"rdma/hca": "1"}}
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    on = ProfileTier.model_validate({**TIERS[0], **fields, "tolerations": [toleration]})
    pod = build(on=on)
    spec = pod["spec"]
    named = (spec["nodeSelector"], spec["runtimeClassName"], spec["priorityClassName"], spec["schedulerName"])
    assert named == ({"tier": "spot"}, "nvidia", "low", "packs")
    assert spec["tolerations"][0] == toleration
    assert trainer(pod)["resources"]["limits"]["rdma/hca"] == "1"


def test_a_silent_node_does_not_kill_it():
    for what in ("not-ready", "unreachable"):
        wanted = {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
        assert wanted in build()["spec"]["tolerations"]


def test_nodes_are_avoided_by_name():
    """The API server takes exactly one value in a field requirement."""
    terms = build(avoid=("n1", "n2"))["spec"]["affinity"]["nodeAffinity"]
    assert terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("n1", "n2")]}
    ]
    assert "affinity" not in build()["spec"]


def test_shared_memory_and_own_volumes():
    volume = {"name": "data", "mountPath": "/data", "subPath": "a", "persistentVolumeClaim": {"claimName": "data"}}
    pod = build(trainer={**TRAINER, "resources": {"sharedMemory": "2Gi"}, "volumes": [volume]})
    assert volumes(pod)["data"] == {
        "name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": False},
    }  # fmt: skip
    assert volumes(pod)["holdfast-shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    mounts = trainer(pod)["volumeMounts"]
    assert {"name": "data", "mountPath": "/data", "readOnly": False, "subPath": "a"} in mounts
    assert {"name": "holdfast-shm", "mountPath": "/dev/shm"} in mounts


def init(pod):
    return pod["spec"]["initContainers"][0]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, {"cpu": "1", "memory": "1Gi"}),
        ({"cpu": "16", "memory": "120Gi", "ephemeralStorage": "50Gi"},
         {"cpu": "16", "memory": "120Gi", "ephemeral-storage": "50Gi"}),
        ({"cpu": "10m", "memory": "64Mi"}, {"cpu": "10m", "memory": "256Mi"}),
    ],
)  # fmt: skip
def test_every_container_sets_what_a_quota_or_limit_range_of_the_trainer_asks_for(asked, wanted):
    """A quota on limits.cpu refuses a pod with a container that has none; a LimitRange may bound limit to request."""
    pod = build(trainer={**TRAINER, "acceleratorsPerNode": 0, "resources": asked})
    assert init(pod)["resources"] == {"requests": wanted, "limits": wanted}
    assert trainer(pod)["resources"]["limits"] == {**wanted, "memory": asked.get("memory", "1Gi")}


CLAIM = {"storage": {"volumeClaim": {"name": "runs", "path": "vit"}}}


def volume(claim):
    return {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": claim}}


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"checkpoint": CLAIM}, 65532),
        ({"checkpoint": CLAIM, "trainer": {**TRAINER, "securityContext": {"fsGroup": 7}}}, 7),
        ({"checkpoint": CLAIM, "trainer": {**TRAINER, "volumes": [volume("runs")]}}, 65532),
        ({"checkpoint": CLAIM, "trainer": {**TRAINER, "volumes": [volume("data")]}}, None),
        ({}, None),
    ],
    ids=["default", "as asked", "the same claim", "would change other files", "no claim"],
)
def test_all_users_of_a_volume_with_checkpoints_share_a_group(changes, group):
    assert build(**changes)["spec"]["securityContext"].get("fsGroup") == group


def test_a_large_volume_is_not_walked_through_at_every_start():
    assert build(checkpoint=CLAIM)["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


@pytest.mark.parametrize("name", ["HOLDFAST_JOB_UID", "HOLDFAST_ATTEMPT", "HOLDFAST_SETTINGS"])
def test_our_variables_cannot_be_set(name):
    with pytest.raises(SpecError, match="HOLDFAST_"):
        build(trainer={**TRAINER, "env": [{"name": name, "value": "stolen"}]})


def test_a_user_cannot_change_what_torchrun_is_told():
    assert env(trainer(build(trainer={**TRAINER, "env": [{"name": "PET_NNODES", "value": "9"}]})))["PET_NNODES"] == "1"


def test_a_users_variable_may_refer_to_ours():
    """Kubernetes puts in the values of variables that come earlier in the list, and only those."""
    own = {"name": "RUN", "value": "$(HOLDFAST_JOB)-$(HOLDFAST_POD_UID)-$(HOLDFAST_TIER)"}
    names = [var["name"] for var in trainer(build(trainer={**TRAINER, "env": [own]}))["env"]]
    ours = [position for position, name in enumerate(names) if name.startswith("HOLDFAST_")]
    assert names.index("RUN") > max(ours)


def test_all_attempts_log_into_one_run_of_wandb():
    assert not [name for name in env(trainer(build())) if "WANDB" in name]
    tracked = {**TRAINER, "tracking": {"wandb": True}}
    for number in (1, 7):
        found = env(trainer(build(number, trainer=tracked)))
        assert found["WANDB_RUN_ID"] == "u-job"
        assert (found["WANDB_RESUME"], found["WANDB_NAME"]) == ("allow", "vit")


@pytest.mark.parametrize(
    ("name", "set_by_us"),
    [
        ("WANDB_RUN_ID", {"WANDB_RESUME", "WANDB_NAME"}),
        ("WANDB_RESUME", {"WANDB_RUN_ID", "WANDB_NAME"}),
        ("WANDB_RESUME_FROM", set()),
        ("WANDB_FORK_FROM", set()),
    ],
)
def test_what_the_user_tells_wandb_counts(name, set_by_us):
    tracked = {**TRAINER, "tracking": {"wandb": True}, "env": [{"name": name, "value": "mine"}]}
    variables = trainer(build(trainer=tracked))["env"]
    found = {var["name"]: var.get("value") for var in variables if var["name"].startswith("WANDB_")}
    assert found.pop(name) == "mine"
    assert found.keys() == set_by_us
    assert len({var["name"] for var in variables}) == len(variables)


HOSTILE = {
    "hostNetwork": True,
    "hostPID": True,
    "serviceAccountName": "admin",
    "nodeName": "control-plane",
    "initContainers": [{"name": "evil", "image": "evil"}],
    "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}},
    "lifecycle": {"postStart": {}},
}


def test_fields_off_the_list_have_no_effect():
    text = json.dumps(build(trainer={**TRAINER, **HOSTILE}))
    for word in ("hostNetwork", "hostPID", "serviceAccountName", "control-plane", "evil", "privileged", "SYS_ADMIN"):
        assert word not in text


@pytest.mark.parametrize("source", [{"hostPath": {"path": "/"}}, {"csi": {"driver": "x"}}, {"nfs": {"server": "x"}}])
def test_no_other_volume_source(source):
    with pytest.raises(SpecError, match="emptyDir"):
        build(trainer={**TRAINER, "volumes": [{"name": "root", "mountPath": "/host", **source}]})


def test_a_second_source_beside_an_allowed_one_is_dropped():
    volume = {"name": "root", "mountPath": "/host", "emptyDir": {}, "hostPath": {"path": "/"}}
    assert "hostPath" not in json.dumps(build(trainer={**TRAINER, "volumes": [volume]}))


def test_a_user_that_is_not_root_makes_the_pod_restricted():
    trainer = {"image": "registry.example/train:1", "securityContext": {"runAsUser": 1000, "fsGroup": 1000}}
    spec = build_pod(job(trainer=trainer), attempt(), OperatorConfig(), 7200.0)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 1000
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_read_only_root_filesystem_belongs_to_all_containers():
    """Breaks if a namespace whose policy demands it cannot be satisfied, or the API server is given it for the pod."""
    spec = build(trainer={**TRAINER, "securityContext": {"readOnlyRootFilesystem": True}})["spec"]
    assert "readOnlyRootFilesystem" not in spec["securityContext"]
    containers = (*spec["initContainers"], *spec["containers"])
    assert all(one["securityContext"]["readOnlyRootFilesystem"] is True for one in containers)
    assert "readOnlyRootFilesystem" not in json.dumps(build())


def test_the_pod_satisfies_pod_security_baseline():
    spec = build()["spec"]
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert not any("hostPath" in volume for volume in spec["volumes"])


def test_the_hash_changes_with_what_pods_are_made_from_and_with_nothing_else():
    def digest(**changes):
        return build(**changes)["metadata"]["annotations"]["holdfast.dev/made-from"]

    other_storage = {"storage": {"s3": {"bucket": "runs", "prefix": "other"}}}
    assert digest() == digest(activeDeadline="1h", suspend=True)
    assert len({digest(), digest(trainer=TRAINER), digest(checkpoint=other_storage), digest(goal={"steps": 7})}) == 4


def test_a_pod_of_several_nodes_leaves_the_meeting_to_its_launcher():
    """Breaks if torchrun meets alone, or at an address of the pod's start: pods outlive the programs that they run."""
    trainer_of_four = {**TRAINER, "nodes": 4}
    made = build_pod(
        job(trainer=trainer_of_four), attempt(3, tier=tier(), nodes=4, predecessor=2), CONFIG, 7200.4, rank=2
    )
    assert made["metadata"]["name"] == "vit-3-2"
    assert made["metadata"]["labels"]["holdfast.dev/rank"] == "2"
    found = env(trainer(made))
    assert (found["HOLDFAST_NODES"], found["HOLDFAST_RANK"]) == ("4", "2")
    assert found["HOLDFAST_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert not {"PET_STANDALONE", "PET_NNODES", "PET_NODE_RANK", "HOLDFAST_PREDECESSOR"} & found.keys()
    (term,) = made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"holdfast.dev/job-uid": "u-job"}
