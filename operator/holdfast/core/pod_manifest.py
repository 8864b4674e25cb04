"""The manifest of an attempt's pod. A job may choose only what its spec allows; Holdfast sets every other field."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.api import names
from holdfast.api.attempt import Attempt
from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast.api.scalars import quantity_value
from holdfast.api.storage import S3Storage
from holdfast.api.trainer import Trainer, Volume
from holdfast.core.made_from import hash_of, made_from
from holdfast.core.observe.config import OperatorConfig
from holdfast.core.observe.demand import requested, requested_anywhere
from holdfast.core.pod_affinity import pod_affinity
from holdfast.core.pod_data import ca_volume, data_mounts, data_volumes
from holdfast.core.pod_settings import grace_seconds, pod_settings
from holdfast.core.program_variables import (
    Env,
    accelerators,
    own_variables,
    plain,
    torchrun_variables,
)
from holdfast_protocol import variables
from holdfast_protocol.document import to_text
from holdfast_protocol.settings import Settings

Manifest = dict[str, Any]

TERMINATION_LOG = "/dev/termination-log"
TOKEN_SECONDS = 3600
INIT_MEMORY = "256Mi"  # what the init container needs at least
VOLUME_GROUP = 65532  # of a volume with checkpoints: the group of the init container's image

# A pod tolerates a silent node without limit: otherwise the taint manager would end a training whose node only lost its
# connection. Holdfast decides itself, and earlier (see core.table: the silent node).
_STAY_ON_SILENT_NODES = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute"}
    for what in ("not-ready", "unreachable")
]


def pod_name(job: str, attempt: int, rank: int) -> str:
    """The name of a pod. It depends only on its arguments, so an attempt cannot have two pods of one rank."""
    return f"{job}-{attempt}-{rank}"


def build_pod(
    job: TrainingJob,
    attempt: Attempt,
    config: OperatorConfig,
    life: float,
    *,
    rank: int = 0,
    shuns: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> Manifest:
    """The manifest of one pod. `life` is the expected time between interruptions on its tier, in seconds, as known now.

    The pod uses the nodes of `shuns` only if it gets no other one. Its launcher imports the libraries of `imports`.
    """
    trainer, tier = job.spec.trainer, attempt.tier
    common = _common_env(job, attempt, pod_settings(job, config, life, imports))
    env = common + _trainer_env(job, attempt, rank) + own_variables(job) + torchrun_variables(trainer, attempt)
    mounts = [*_storage_mounts(job), *_code_mounts(trainer)]
    launcher = {"name": names.LAUNCHER_VOLUME, "mountPath": names.LAUNCHER_PATH}
    spec: Manifest = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(job),
        "nodeSelector": dict(tier.node_selector),
        "tolerations": [t.to_object() for t in tier.tolerations] + _STAY_ON_SILENT_NODES,
        "securityContext": _pod_security(job),
        "initContainers": [_init_container(trainer, config, common, [launcher, *mounts])],
        "containers": [_trainer_container(trainer, tier, env, [launcher, *mounts])],
        "volumes": _volumes(job),
    }
    if trainer.image_pull_secrets:
        spec["imagePullSecrets"] = [ref.to_object() for ref in trainer.image_pull_secrets]
    if tier.runtime_class_name:
        spec["runtimeClassName"] = tier.runtime_class_name
    if tier.priority_class_name:
        spec["priorityClassName"] = tier.priority_class_name
    if tier.scheduler_name:
        spec["schedulerName"] = tier.scheduler_name
    if affinity := pod_affinity(job, attempt, shuns):
        spec["affinity"] = affinity
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(job, attempt, rank), "spec": spec}


def _metadata(job: TrainingJob, attempt: Attempt, rank: int) -> Manifest:
    return {
        "name": pod_name(job.metadata.name, attempt.number, rank),
        "namespace": job.metadata.namespace,
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_JOB: job.metadata.name,
            names.LABEL_JOB_UID: job.metadata.uid,
            names.LABEL_ATTEMPT: str(attempt.number),
            names.LABEL_RANK: str(rank),
            names.LABEL_TIER: attempt.tier.name,
        },
        "annotations": {
            names.ANNOTATION_MADE_FROM: hash_of(made_from(job.spec)),
            names.ANNOTATION_DO_NOT_DISRUPT: "true",
            names.ANNOTATION_SAFE_TO_EVICT: "false",
        },
        "finalizers": [names.POD_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.JOB_KIND,
                "name": job.metadata.name,
                "uid": job.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }


def _init_container(trainer: Trainer, config: OperatorConfig, env: Env, mounts: list[Manifest]) -> Manifest:
    """What it asks for costs nothing: it ends before the trainer starts, and a pod needs the larger of the two.

    Requests and limits as those of the trainer satisfy every quota and LimitRange that the trainer satisfies.
    """
    memory = max(trainer.resources.memory, INIT_MEMORY, key=quantity_value)
    wanted = {**requested_anywhere(trainer), "memory": memory}
    return {
        "name": names.INIT_CONTAINER,
        "image": config.init_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["holdfast-init"],
        "env": [*env, {"name": variables.LAUNCHER_DIR, "value": names.LAUNCHER_PATH}],
        "resources": {"requests": wanted, "limits": wanted},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **_root_filesystem(trainer),
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _trainer_container(trainer: Trainer, tier: ProfileTier, env: Env, mounts: list[Manifest]) -> Manifest:
    wanted = requested(trainer, tier)
    own_mounts = [*(_mount(volume) for volume in trainer.volumes), *data_mounts(trainer)]
    if trainer.resources.shared_memory:
        own_mounts.append({"name": "holdfast-shm", "mountPath": "/dev/shm"})  # noqa: S108 - NCCL and data loaders use it
    container: Manifest = {
        "name": names.TRAINER_CONTAINER,
        "image": trainer.image,
        "command": ["python3", f"{names.LAUNCHER_PATH}/holdfast-run", "--", *trainer.command, *trainer.args],
        "env": env,
        "envFrom": [source.to_object() for source in trainer.env_from],
        "resources": {"requests": wanted, "limits": wanted},
        "securityContext": _container_security(trainer),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *mounts,
            {"name": names.TOKEN_VOLUME, "mountPath": names.TOKEN_PATH, "readOnly": True},
            {"name": names.CA_VOLUME, "mountPath": names.CA_PATH, "readOnly": True},
            *own_mounts,
        ],
    }
    if trainer.working_dir or trainer.code:
        container["workingDir"] = trainer.working_dir or names.CODE_PATH
    if trainer.image_pull_policy:
        container["imagePullPolicy"] = trainer.image_pull_policy
    return container


def _pod_security(job: TrainingJob) -> Manifest:
    trainer = job.spec.trainer
    root = {} if not trainer.security_context.run_as_user else {"runAsNonRoot": True}
    context = {**trainer.security_context.to_object(), **root, "seccompProfile": {"type": "RuntimeDefault"}}
    context.pop("readOnlyRootFilesystem", None)  # it belongs to containers
    if trainer.security_context.fs_group is None and _may_share_volume(job):
        context |= {"fsGroup": VOLUME_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return context


def _may_share_volume(job: TrainingJob) -> bool:
    """True if only the claim with the checkpoints would change its group.

    The init container, and trainers of other images later, may run as other users: what they share is a group.
    """
    claim = job.spec.checkpoint.storage.volume_claim
    others = (volume.persistent_volume_claim for volume in job.spec.trainer.volumes)
    return claim is not None and all(other is None or other.claim_name == claim.name for other in others)


def _container_security(trainer: Trainer) -> Manifest:
    """Pod security `baseline`, since many CUDA images run as root; `restricted` if the job sets another user.

    A namespace that enforces `restricted` refuses a pod of the first kind with a clear message.
    """
    drop = {"capabilities": {"drop": ["ALL"]}} if trainer.security_context.run_as_user else {}
    return {"allowPrivilegeEscalation": False, **drop, **_root_filesystem(trainer)}


def _root_filesystem(trainer: Trainer) -> Manifest:
    return {"readOnlyRootFilesystem": True} if trainer.security_context.read_only_root_filesystem else {}


def _common_env(job: TrainingJob, attempt: Attempt, settings: Settings) -> Env:
    """What the init container needs too: the identity of the pod, and the settings of the job."""
    return [
        *plain(
            {
                variables.NAMESPACE: job.metadata.namespace,
                variables.JOB: job.metadata.name,
                variables.JOB_UID: job.metadata.uid,
                variables.ATTEMPT: str(attempt.number),
                variables.TERMINATION_LOG: TERMINATION_LOG,
                variables.SETTINGS: to_text(settings),
                variables.CODE_DIR: names.CODE_PATH if settings.code else None,
                variables.DEPENDENCIES_DIR: names.DEPENDENCIES_PATH if settings.dependencies else None,
            }
        ),
        _of_field(variables.POD_UID, "metadata.uid"),
        *_credentials(job.spec.checkpoint.storage.s3),
    ]


def _trainer_env(job: TrainingJob, attempt: Attempt, rank: int) -> Env:
    spec = job.spec
    alone = attempt.nodes == 1
    common = plain(
        {
            variables.RANK: str(rank),
            variables.NODES: str(attempt.nodes),
            variables.TIER: attempt.tier.name,
            variables.PREDECESSOR: str(attempt.predecessor) if alone and attempt.predecessor else None,
            variables.ACCELERATORS: str(accelerators(spec.trainer, attempt)),
            variables.POD_NAME: pod_name(job.metadata.name, attempt.number, rank),
            variables.GOAL_STEPS: str(spec.goal.steps) if spec.goal.steps else None,
        }
    )
    # With several nodes the launcher needs the address, and sets the rest for each start of the program.
    return common if alone else [*common, _of_field(variables.POD_IP, "status.podIP")]


def _of_field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _credentials(s3: S3Storage | None) -> Env:
    """The keys when the pod starts, for its first requests. The settings name the folder that is kept up to date.

    A kubelet waits with the start of a container until a Secret that its variables need is there, and says so. For a
    volume it would wait too, but without a reason in the pod's status.
    """
    if s3 is None or s3.credentials_secret is None:
        return []

    def key(name: str, *, optional: bool) -> Manifest:
        ref = {"name": s3.credentials_secret, "key": name, "optional": optional}
        return {"name": variables.of_key(name), "valueFrom": {"secretKeyRef": ref}}

    *required, token = variables.KEYS
    return [*(key(name, optional=False) for name in required), key(token, optional=True)]


def _keys_volume(secret: str) -> Manifest:
    """The keys as files, which the kubelet changes when the Secret changes. Every user of the pod can read them."""
    items = [{"key": key, "path": key} for key in variables.KEYS]
    source = {"secretName": secret, "items": items, "defaultMode": 0o444, "optional": True}
    return {"name": names.KEYS_VOLUME, "secret": source}


def _storage_mounts(job: TrainingJob) -> list[Manifest]:
    """What the init container and the trainer need to reach the storage."""
    s3 = job.spec.checkpoint.storage.s3
    if s3 is None:
        return [{"name": names.CHECKPOINT_VOLUME, "mountPath": names.CHECKPOINT_PATH}]
    mounts: list[Manifest] = []
    if s3.credentials_secret:
        mounts.append({"name": names.KEYS_VOLUME, "mountPath": names.KEYS_PATH, "readOnly": True})
    if s3.ca:
        mounts.append({"name": names.STORAGE_CA_VOLUME, "mountPath": names.STORAGE_CA_PATH, "readOnly": True})
    return mounts


def _code_mounts(trainer: Trainer) -> list[Manifest]:
    """Where the init container puts the program's folder, and what it needs."""
    return [{"name": volume, "mountPath": path} for volume, path in _code_volumes(trainer)]


def _code_volumes(trainer: Trainer) -> Iterator[tuple[str, str]]:
    """The volumes for `trainer.code`, with their paths."""
    if trainer.code:
        yield names.CODE_VOLUME, names.CODE_PATH
        if trainer.code.dependencies:
            yield names.DEPENDENCIES_VOLUME, names.DEPENDENCIES_PATH


def _volumes(job: TrainingJob) -> list[Manifest]:
    token = {"audience": names.TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    volumes: list[Manifest] = [
        {"name": names.LAUNCHER_VOLUME, "emptyDir": {}},
        {"name": names.TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}},
        {"name": names.CA_VOLUME, "configMap": {"name": names.CA_CONFIG_MAP}},
    ]
    storage = job.spec.checkpoint.storage
    if storage.volume_claim:
        claim = {"claimName": storage.volume_claim.name}
        volumes.append({"name": names.CHECKPOINT_VOLUME, "persistentVolumeClaim": claim})
    if storage.s3 and storage.s3.credentials_secret:
        volumes.append(_keys_volume(storage.s3.credentials_secret))
    if storage.s3 and storage.s3.ca:
        volumes.append(ca_volume(names.STORAGE_CA_VOLUME, storage.s3.ca))
    shared_memory = job.spec.trainer.resources.shared_memory
    if shared_memory:
        volumes.append({"name": "holdfast-shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory}})
    for volume in job.spec.trainer.volumes:
        source = volume.to_object()
        for not_a_source in ("mountPath", "subPath", "readOnly"):
            source.pop(not_a_source, None)
        volumes.append(source)
    volumes += [{"name": volume, "emptyDir": {}} for volume, _ in _code_volumes(job.spec.trainer)]
    return [*volumes, *data_volumes(job.spec.trainer)]


def _mount(volume: Volume) -> Manifest:
    mount: Manifest = {"name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only}
    return {**mount, "subPath": volume.sub_path} if volume.sub_path else mount
