"""The part of a TrainingJob's spec that says what runs: the pod fields that a job may set."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from holdfast.api.data import DATA_RULES, MAX_DATA, RESERVED, RESERVED_PATTERN, Data, is_reserved
from holdfast.api.model import Model
from holdfast.api.names import CODE_PATH, DEPENDENCIES_PATH
from holdfast.api.rules import KeyedBy, Rule, at_most_one, exactly_one
from holdfast.api.scalars import Count, Flag, Quantity, quantity_value
from holdfast.api.strings import (
    AbsolutePath,
    AnyText,
    DataKey,
    EnvName,
    EnvPrefix,
    Image,
    Label,
    LongText,
    MountPath,
    ObjectName,
    PodField,
    RelativePath,
    Sha256,
)
from holdfast_protocol.report import MAX_NODES


class KeyRef(Model):
    """A key of a Secret or a ConfigMap in the job's namespace."""

    name: ObjectName
    """Name of the Secret or ConfigMap."""
    key: DataKey
    """Key in the Secret or ConfigMap."""
    optional: Flag = False
    """True: the pod starts although the object or the key is missing."""


class FieldRef(Model):
    """A field of the pod, by its name in the downward API."""

    field_path: PodField
    """Path of the field, such as status.podIP."""


class EnvSource(Model):
    """Where the value of an environment variable comes from. Set exactly one field."""

    secret_key_ref: KeyRef | None = None
    """Take the value from a key of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """Take the value from a key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """Take the value from a field of the pod."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one("secretKeyRef", "configMapKeyRef", "fieldRef"),)


SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the one path below /dev that a volume may have


class EnvVar(Model):
    """One environment variable of the trainer."""

    name: EnvName
    """Name of the variable. Names that start with HOLDFAST_ are reserved."""
    value: LongText | None = None
    """Value of the variable. Set value or valueFrom, not both."""
    value_from: EnvSource | None = None
    """Where the value comes from. Set value or valueFrom, not both."""

    rules: ClassVar[tuple[Rule, ...]] = (
        at_most_one("value", "valueFrom"),
        Rule(
            allowed="names that start with HOLDFAST_ are reserved: choose another name",
            cel="!self.name.startsWith('HOLDFAST_')",
            is_met=lambda env: not env.name.startswith("HOLDFAST_"),
            got_cel="self.name",
            got=lambda env: env.name,
            field=".name",
        ),
    )


class LocalRef(Model):
    """The name of an object in the job's namespace."""

    name: ObjectName
    """Name of the object."""


class EnvFrom(Model):
    """Makes an environment variable of every key of a Secret or ConfigMap. Set exactly one of the two."""

    prefix: EnvPrefix = ""
    """Text before each key in the name of the variable. It must not start with HOLDFAST_."""
    secret_ref: LocalRef | None = None
    """The Secret whose keys become variables."""
    config_map_ref: LocalRef | None = None
    """The ConfigMap whose keys become variables."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("secretRef", "configMapRef"),
        Rule(
            allowed="names that start with HOLDFAST_ are reserved: choose another prefix",
            cel="!has(self.prefix) || !self.prefix.startsWith('HOLDFAST_')",
            is_met=lambda source: not source.prefix.startswith("HOLDFAST_"),
            got_cel="self.prefix",
            got=lambda source: source.prefix,
            field=".prefix",
        ),
    )


class EmptyDir(Model):
    """An empty folder that is deleted with the pod."""

    medium: Literal["", "Memory"] = ""
    """Memory: the files are in the node's memory and count as memory of the trainer. Empty: they are on its disk."""
    size_limit: Quantity | None = None
    """The most that the volume may contain, such as 10Gi; beyond it the pod is evicted. Default: no limit."""


class ClaimRef(Model):
    """A PersistentVolumeClaim in the job's namespace."""

    claim_name: ObjectName
    """Name of the claim."""
    read_only: Flag = False
    """True: the claim is mounted read-only."""


class ConfigMapSource(Model):
    """A ConfigMap; each key becomes a file."""

    name: ObjectName
    """Name of the ConfigMap."""
    optional: Flag = False
    """True: the pod starts although the ConfigMap is missing."""


class SecretSource(Model):
    """A Secret; each key becomes a file."""

    secret_name: ObjectName
    """Name of the Secret."""
    optional: Flag = False
    """True: the pod starts although the Secret is missing."""


class Volume(Model):
    """A volume and its path in the trainer. Set exactly one of emptyDir, configMap, secret, persistentVolumeClaim."""

    name: Label
    """Name of the volume. Names that start with holdfast- are reserved."""
    mount_path: MountPath
    """Path of the volume in the trainer. /holdfast, /dev, /proc, /sys and all paths below them are reserved, except
    /dev/shm."""
    sub_path: RelativePath | None = None
    """Folder in the volume that is mounted. Default: the whole volume."""
    read_only: Flag = False
    """True: the volume is mounted read-only."""
    empty_dir: EmptyDir | None = None
    """An empty folder that is deleted with the pod."""
    config_map: ConfigMapSource | None = None
    """A ConfigMap; each key becomes a file."""
    secret: SecretSource | None = None
    """A Secret; each key becomes a file."""
    persistent_volume_claim: ClaimRef | None = None
    """A PersistentVolumeClaim in the job's namespace."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("emptyDir", "configMap", "secret", "persistentVolumeClaim"),
        Rule(
            allowed="names that start with holdfast- are reserved: choose another name",
            cel="!self.name.startsWith('holdfast-')",
            is_met=lambda volume: not volume.name.startswith("holdfast-"),
            got_cel="self.name",
            got=lambda volume: volume.name,
            field=".name",
        ),
        Rule(
            allowed=f"{RESERVED} are reserved, except {SHARED_MEMORY}: choose another path",
            cel=f"self.mountPath == '{SHARED_MEMORY}' || !self.mountPath.matches('{RESERVED_PATTERN}')",
            is_met=lambda volume: volume.mount_path == SHARED_MEMORY or not is_reserved(volume.mount_path),
            got_cel="self.mountPath",
            got=lambda volume: volume.mount_path,
            field=".mountPath",
        ),
    )


def _positive(field: str, attribute: str, *, optional: bool = False) -> Rule:
    text = f"string(self.{field})"
    return Rule(
        allowed=f"{field} must be above 0",
        cel=(f"!has(self.{field}) || " if optional else "") + f"quantity({text}).isGreaterThan(quantity('0'))",
        is_met=lambda resources: (got := getattr(resources, attribute)) is None or quantity_value(got) > 0,
        got_cel=text,
        got=lambda resources: str(getattr(resources, attribute)),
        field=f".{field}",
    )


class Resources(Model):
    """What the trainer gets on its node besides accelerators. Requests and limits are equal."""

    cpu: Quantity = "1"
    """Processor cores, such as 16 or 500m; above 0."""
    memory: Quantity = "1Gi"
    """Memory, such as 120Gi; above 0."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which data loaders need, such as 16Gi. Default: the container runtime's, usually 64Mi."""
    ephemeral_storage: Quantity | None = None
    """Space on the node's disk for logs, temporary files and emptyDir volumes, such as 50Gi; beyond it the pod is
    evicted, which counts as a failure. Default: no limit; a quota on ephemeral-storage then counts nothing for the job,
    and a LimitRange with a minimum for ephemeral-storage of a pod refuses it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _positive("cpu", "cpu"),
        _positive("memory", "memory"),
        _positive("ephemeralStorage", "ephemeral_storage", optional=True),
    )


class SecurityContext(Model):
    """The part of a pod's security context that a job may set."""

    run_as_user: Count | None = None
    """User id of the program. With an id other than 0 the pod meets the Pod Security Standard `restricted`, otherwise
    `baseline`. Default: the image's user."""
    run_as_group: Count | None = None
    """Group id of the program. Default: the image's group."""
    fs_group: Count | None = None
    """Id of the group that owns the files of the volumes, and that all containers belong to. Default: 65532 if
    checkpoint.storage is a volumeClaim and no other claim is in trainer.volumes, otherwise the groups stay unchanged.
    Not every kind of volume supports it; NFS does not."""
    read_only_root_filesystem: Flag = False
    """True: the files of the image cannot be changed. The program writes into volumes only, such as an emptyDir at
    /tmp. For namespaces whose policy demands it."""


class Code(Model):
    """The folder of the program. `holdfast run` packs it, uploads it beside the checkpoints, and sets this."""

    sha256: Sha256
    """Hash of the folder: of the paths, the contents and the executable bits of its files. The archive is the object
    code/{sha256}.tar.gz below checkpoint.storage. A pod in which the files have another hash does not start."""
    dependencies: Sha256 | None = None
    """Hash of a list of Python packages that the program needs beside those of the image: the object
    code/{sha256}.json below checkpoint.storage. They are put into /dependencies of each pod, which comes first in
    PYTHONPATH, and its folder bin first in PATH. A program of Python does not start if they do not fit its version, or
    the packages of the image."""


class Tracking(Model):
    """Experiment trackers in which all attempts of the job are one run."""

    wandb: Flag = False
    """True: all attempts log into one run of Weights & Biases. The program gets WANDB_RUN_ID (the UID of the job),
    WANDB_RESUME (allow) and WANDB_NAME (the name of the job); each of them that env sets stays as it is there, and none
    is set if env has WANDB_RESUME_FROM or WANDB_FORK_FROM. Only one rank may log."""
    mlflow: Flag = False
    """True: all attempts log into one run of the MLflow server that MLFLOW_TRACKING_URI names. The program gets its id
    as MLFLOW_RUN_ID, unless env sets that. The run is found by the tag holdfast.job-uid, and is made if there is
    none."""


def _mounted_twice(trainer: "Trainer") -> list[str]:
    paths = [volume.mount_path for volume in trainer.volumes]
    return [path for path in paths if paths.count(path) > 1]


def _in_code(trainer: "Trainer") -> list[str]:
    paths = [*(volume.mount_path for volume in trainer.volumes), *(data.to for data in trainer.data)]
    return [path for path in paths if path in _PLACES and trainer.code]


_PLACES = (CODE_PATH, DEPENDENCIES_PATH)
_MOUNTS = (
    f"(has(self.volumes) && self.volumes.exists(v, v.mountPath in {list(_PLACES)})) || "
    f"(has(self.data) && self.data.exists(d, d.to in {list(_PLACES)}))"
)
_TWICE = "self.volumes.filter(v, !self.volumes.exists_one(w, w.mountPath == v.mountPath))"


class Trainer(Model):
    """The program that runs. Only these fields of its pod can be set; there is no pod template."""

    image: Image
    """Container image of the program. It must contain Python 3.9 or newer as python3."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled. Default: Always for the tag latest, otherwise IfNotPresent."""
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=16), KeyedBy("name")] = ()
    """Secrets for pulling the image."""
    command: Annotated[tuple[AnyText, ...], Field(max_length=64)] = ()
    """The program and its first arguments, such as [torchrun, train.py]."""
    args: Annotated[tuple[AnyText, ...], Field(max_length=256)] = ()
    """Further arguments of the program, after command."""
    working_dir: AbsolutePath | None = None
    """Folder in which the program starts. Default: /code if code is set, otherwise the image's working
    directory."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=256), KeyedBy("name")] = ()
    """Environment variables of the program. A value may refer to an earlier variable, and to the variables of Holdfast,
    such as $(HOLDFAST_JOB_UID)."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=32)] = ()
    """Secrets and ConfigMaps whose keys become environment variables."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=32), KeyedBy("name")] = ()
    """Volumes that are mounted in the trainer. Their mountPaths must differ."""
    code: Code | None = None
    """The folder of the program, in /code of each pod. Its files are read-only, except for a program that
    runs as root; the program may write new ones beside them, which go with the pod."""
    data: Annotated[tuple[Data, ...], Field(max_length=MAX_DATA), KeyedBy("to")] = ()
    """Data that is copied into each pod before the program starts. python3 of the image must then be 3.11 or newer."""
    nodes: Annotated[int, Field(strict=True, ge=1, le=MAX_NODES)] = 1
    """Number of nodes that train together. Each node has one pod with these resources. The program starts once every
    node is there, and all pods get the address at which the processes meet."""
    warm_start: Flag = True
    """True: on several nodes, a process that has imported torch waits beside the program where memory allows, and the
    next attempt starts in it. It takes 300 to 400 MiB for each rank, and one for torchrun."""
    accelerators_per_node: Annotated[int, Field(strict=True, ge=0, le=64)] = 1
    """Number of accelerators on each node of a Spot or Dedicated tier. 0: the program needs no accelerator. A CPU tier
    has none. A tier may have another number (capacity.tiers[].acceleratorsPerNode)."""
    resources: Resources = Resources()
    """What the program gets on its node besides accelerators."""
    security_context: SecurityContext = SecurityContext()
    """User and groups of the program."""
    tracking: Tracking = Tracking()
    """Experiment trackers in which all attempts of the job are one run."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="all volumes must have different mountPaths",
            cel=f"!has(self.volumes) || {_TWICE}.size() == 0",
            is_met=lambda trainer: not _mounted_twice(trainer),
            got=lambda trainer: _mounted_twice(trainer)[0],
            field=".volumes",
        ),
        Rule(
            allowed=f"{' and '.join(_PLACES)} are for code: choose another path",
            cel=f"!has(self.code) || !({_MOUNTS})",
            is_met=lambda trainer: not _in_code(trainer),
            got=lambda trainer: _in_code(trainer)[0],
            field=".code",
        ),
        *DATA_RULES,
    )
