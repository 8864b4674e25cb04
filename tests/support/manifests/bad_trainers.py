"""Mistakes in names and in what runs."""

from typing import Any, Final

from tests.support.manifests.good_manifests import REMOVED, Bad

_TRAINER = "spec/trainer"
_ENV = [{"name": "A", "value": "1"}]


def _env(**fields: Any) -> dict[str, Any]:
    return {f"{_TRAINER}/env": [fields]}


def _volume(**fields: Any) -> dict[str, Any]:
    return {f"{_TRAINER}/volumes": [{"name": "data", "mountPath": "/data", **fields}]}


_REF = {"name": "keys", "key": "token"}

BAD_TRAINERS: Final[tuple[Bad, ...]] = (
    # Names
    Bad("name-too-long", {"metadata/name": "j" * 41}, "metadata.name", "j" * 41, "at most 40 characters"),
    Bad(
        "name-with-dot",
        {"metadata/name": "vit.faces"},
        "metadata.name",
        "vit.faces",
        "lower-case letters, digits and '-'",
    ),
    # Trainer
    Bad("no-trainer", {_TRAINER: REMOVED}, "spec.trainer", "", "Required value", "required"),
    Bad("no-image", {f"{_TRAINER}/image": REMOVED}, "spec.trainer.image", "", "Required value", "required"),
    Bad(
        "empty-image", {f"{_TRAINER}/image": ""}, "spec.trainer.image", '""', "at least 1 chars", "1 to 512 characters"
    ),
    Bad(
        "image-with-space",
        {f"{_TRAINER}/image": "a b"},
        "spec.trainer.image",
        "a b",
        r"should match '^[^\s]+$'",
        "without spaces",
    ),
    Bad(
        "image-of-wrong-type",
        {f"{_TRAINER}/image": 3},
        "spec.trainer.image",
        "",
        "must be of type string",
        "must be a container image",
    ),
    Bad(
        "pull-policy",
        {f"{_TRAINER}/imagePullPolicy": "Sometimes"},
        "spec.trainer.imagePullPolicy",
        "Sometimes",
        '"Always", "IfNotPresent", "Never"',
        "'Always', 'IfNotPresent' or 'Never'",
    ),
    Bad(
        "too-many-words",
        {f"{_TRAINER}/command": ["x"] * 65},
        "spec.trainer.command",
        "65",
        "at most 64 items",
        "at most 64 items",
    ),
    Bad(
        "word-too-long",
        {f"{_TRAINER}/command": ["x" * 4097]},
        "spec.trainer.command[0]",
        "",
        "4096",
        "at most 4096 characters",
    ),
    Bad(
        "command-of-wrong-type",
        {f"{_TRAINER}/command": "python3 train.py"},
        "spec.trainer.command",
        "",
        "must be of type array",
        "must be a list",
    ),
    Bad(
        "working-dir-relative",
        {f"{_TRAINER}/workingDir": "src"},
        "spec.trainer.workingDir",
        "src",
        "should match '^/",
        "an absolute path",
    ),
    Bad(
        "too-many-accelerators",
        {f"{_TRAINER}/acceleratorsPerNode": 65},
        "spec.trainer.acceleratorsPerNode",
        "65",
        "less than or equal to 64",
        "at most 64",
    ),
    Bad(
        "negative-accelerators",
        {f"{_TRAINER}/acceleratorsPerNode": -1},
        "spec.trainer.acceleratorsPerNode",
        "-1",
        "greater than or equal to 0",
        "at least 0",
    ),
    Bad(
        "accelerators-as-text",
        {f"{_TRAINER}/acceleratorsPerNode": "1"},
        "spec.trainer.acceleratorsPerNode",
        "",
        "must be of type integer",
        "a whole number",
    ),
    Bad(
        "user-negative",
        {f"{_TRAINER}/securityContext": {"runAsUser": -1}},
        "spec.trainer.securityContext.runAsUser",
        "-1",
        "greater than or equal to 0",
        "at least 0",
    ),
    Bad(
        "cpu-not-a-quantity",
        {f"{_TRAINER}/resources/cpu": "four"},
        "spec.trainer.resources.cpu",
        "four",
        "should match",
        "a quantity",
    ),
    Bad("cpu-zero", {f"{_TRAINER}/resources/cpu": "0"}, "spec.trainer.resources.cpu", "0", "cpu must be above 0"),
    Bad(
        "memory-negative",
        {f"{_TRAINER}/resources/memory": "-1Gi"},
        "spec.trainer.resources.memory",
        "-1Gi",
        "should match",
        "not negative",
    ),
    Bad(
        "memory-underscore",
        {f"{_TRAINER}/resources/memory": "1_000Mi"},
        "spec.trainer.resources.memory",
        "1_000Mi",
        "should match",
        "a quantity",
    ),
    Bad(
        "ephemeral-storage-zero",
        {f"{_TRAINER}/resources/ephemeralStorage": "0"},
        "spec.trainer.resources.ephemeralStorage",
        "0",
        "ephemeralStorage must be above 0",
    ),
    # Environment
    Bad(
        "env-reserved",
        _env(name="HOLDFAST_RANK", value="3"),
        "spec.trainer.env[0].name",
        "HOLDFAST_RANK",
        "reserved",
    ),
    Bad(
        "env-bad-name",
        _env(name="1A", value="3"),
        "spec.trainer.env[0].name",
        "1A",
        "should match",
        "name of an environment variable",
    ),
    Bad(
        "env-twice",
        {f"{_TRAINER}/env": _ENV * 2},
        "spec.trainer.env",
        "A",
        "Duplicate value",
        "no two items may have the same name",
    ),
    Bad(
        "env-value-and-source",
        _env(name="A", value="1", valueFrom={"secretKeyRef": _REF}),
        "spec.trainer.env[0]",
        "value valueFrom",
        "at most one of value and valueFrom",
    ),
    Bad(
        "env-source-empty",
        _env(name="A", valueFrom={}),
        "spec.trainer.env[0].valueFrom",
        "none",
        "exactly one of secretKeyRef, configMapKeyRef and fieldRef",
    ),
    Bad(
        "env-two-sources",
        _env(name="A", valueFrom={"secretKeyRef": _REF, "configMapKeyRef": _REF}),
        "spec.trainer.env[0].valueFrom",
        "secretKeyRef configMapKeyRef",
        "exactly one of",
    ),
    Bad(
        "env-pod-field",
        _env(name="A", valueFrom={"fieldRef": {"fieldPath": "spec.secret"}}),
        "spec.trainer.env[0].valueFrom.fieldRef.fieldPath",
        "spec.secret",
        "should match",
        "a field of the pod",
    ),
    Bad(
        "env-value-number",
        _env(name="A", value=1),
        "spec.trainer.env[0].value",
        "",
        "must be of type string",
        "must be text",
    ),
    Bad(
        "env-from-both",
        {f"{_TRAINER}/envFrom": [{"secretRef": {"name": "a"}, "configMapRef": {"name": "b"}}]},
        "spec.trainer.envFrom[0]",
        "secretRef configMapRef",
        "exactly one of secretRef and configMapRef",
    ),
    Bad(
        "env-from-reserved",
        {f"{_TRAINER}/envFrom": [{"prefix": "HOLDFAST_", "secretRef": {"name": "a"}}]},
        "spec.trainer.envFrom[0].prefix",
        "HOLDFAST_",
        "choose another prefix",
    ),
    # Volumes
    Bad(
        "volume-reserved-name",
        _volume(name="holdfast-token", emptyDir={}),
        "spec.trainer.volumes[0].name",
        "holdfast-token",
        "reserved",
    ),
    Bad(
        "volume-reserved-path",
        _volume(mountPath="/holdfast/bin", emptyDir={}),
        "spec.trainer.volumes[0].mountPath",
        "/holdfast/bin",
        "choose another path",
    ),
    *(
        Bad(
            f"volume-on{path.replace('/', '-')}",
            _volume(mountPath=path, emptyDir={}),
            "spec.trainer.volumes[0].mountPath",
            path,
            "choose another path",
        )
        for path in ("/dev", "/proc/x", "/sys", "/dev/shm/x")
    ),
    Bad(
        "volume-on-root",
        _volume(mountPath="/", emptyDir={}),
        "spec.trainer.volumes[0].mountPath",
        '"/"',
        "should match",
        "not /",
    ),
    Bad(
        "volume-dotdot",
        _volume(mountPath="/data/../holdfast", emptyDir={}),
        "spec.trainer.volumes[0].mountPath",
        "/data/../holdfast",
        "should match",
        "without '.', '..'",
    ),
    Bad(
        "volume-no-source",
        _volume(),
        "spec.trainer.volumes[0]",
        "none",
        "exactly one of emptyDir, configMap, secret and persistentVolumeClaim",
    ),
    Bad(
        "volume-two-sources",
        _volume(emptyDir={}, secret={"secretName": "a"}),
        "spec.trainer.volumes[0]",
        "emptyDir secret",
        "exactly one of",
    ),
    Bad(
        "volume-host-path",
        _volume(hostPath={"path": "/"}),
        "spec.trainer.volumes[0].hostPath",
        "",
        "unknown field",
        "unknown field",
    ),
    Bad(
        "volumes-one-path",
        {f"{_TRAINER}/volumes": [{"name": n, "mountPath": "/data", "emptyDir": {}} for n in "ab"]},
        "spec.trainer.volumes",
        "",
        "all volumes must have different mountPaths",
        "/data: all volumes",
    ),
    Bad(
        "step-of-no-epoch",
        {"spec/progress": {"patterns": ["[{epoch_step}/{epoch_steps}]"]}},
        "spec.progress.patterns",
        "[{epoch_step}/{epoch_steps}]",
        "{epoch_step}, {epoch_steps}, and {epoch} or {epoch_from_1} go together",
    ),
    Bad(
        "epoch-without-steps",
        {"spec/progress": {"patterns": ["Epoch {epoch}/{epochs}"]}},
        "spec.progress.patterns",
        "Epoch {epoch}/{epochs}",
        "{epoch_step}, {epoch_steps}, and {epoch} or {epoch_from_1} go together",
    ),
    Bad(
        "code-hash",
        {f"{_TRAINER}/code": {"sha256": "ABC"}},
        "spec.trainer.code.sha256",
        "ABC",
        "should be at least 64 chars long",
        "must be a SHA-256: 64 hexadecimal digits in lower case",
    ),
    Bad(
        "code-and-volume",
        {
            f"{_TRAINER}/code": {"sha256": "ab" * 32},
            f"{_TRAINER}/volumes": [{"name": "v", "mountPath": "/code", "emptyDir": {}}],
        },
        "spec.trainer.code",
        "",
        "/code and /dependencies are for code: choose another path",
    ),
    Bad(
        "packages-and-data",
        {
            f"{_TRAINER}/code": {"sha256": "ab" * 32},
            f"{_TRAINER}/data": [{"from": "s3://sets/faces", "to": "/dependencies"}],
        },
        "spec.trainer.code",
        "",
        "/code and /dependencies are for code: choose another path",
    ),
    Bad(
        "code-and-folder",
        {f"{_TRAINER}/code": {"sha256": "ab" * 32}, "spec/checkpoint/folder": "/code"},
        "spec.checkpoint.folder",
        "/code",
        "/code has the files of trainer.code",
    ),
)
