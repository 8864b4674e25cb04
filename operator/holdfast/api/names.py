"""Names that several parts of Holdfast, or users, must spell in the same way."""

from typing import Final

GROUP: Final = "holdfast.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
JOB_KIND: Final = "TrainingJob"
JOB_PLURAL: Final = "trainingjobs"
# Characters. Pods are named {job}-{attempt}-{rank}: this leaves space for both numbers in a label of 63.
LONGEST_JOB_NAME: Final = 40
PROFILE_KIND: Final = "CapacityProfile"
PROFILE_PLURAL: Final = "capacityprofiles"

# Labels on every pod that Holdfast creates.
LABEL_JOB: Final = "holdfast.dev/job"
LABEL_JOB_UID: Final = "holdfast.dev/job-uid"
LABEL_ATTEMPT: Final = "holdfast.dev/attempt"
LABEL_RANK: Final = "holdfast.dev/rank"
LABEL_TIER: Final = "holdfast.dev/tier"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "holdfast"

# Label on a TrainingJob that `holdfast probe` makes: the name of the job that it measures.
LABEL_PROBE_OF: Final = "holdfast.dev/probe-of"
# Label on a TrainingJob that `holdfast rehearse` makes: the name of the job that it rehearses.
LABEL_REHEARSAL_OF: Final = "holdfast.dev/rehearsal-of"

# Labels on the operator's own pods. The leader has LABEL_LEADER="true": the Service `holdfast` selects by it.
OPERATOR_LABELS: Final = {"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "operator"}
LABEL_LEADER: Final = "holdfast.dev/leader"

POD_FINALIZER: Final = "holdfast.dev/end-recorded"

# Annotations on a TrainingJob by which users request something. The value is "<id>" or "<id> <tier>". Every request has
# a new id (the CLI writes a timestamp); status.requests has the ids that were handled.
ANNOTATION_CHECKPOINT: Final = "holdfast.dev/checkpoint-requested"
ANNOTATION_MOVE: Final = "holdfast.dev/move-requested"

# Annotations on a training pod: a hash of the fields of spec that it is made from, and two that go when it drains.
ANNOTATION_FORGIVEN: Final = "holdfast.dev/forgiven-nodes"  # of a CapacityProfile: JSON, node to time
ANNOTATION_MADE_FROM: Final = "holdfast.dev/made-from"
ANNOTATION_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
ANNOTATION_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"

TRAINER_CONTAINER: Final = "trainer"
INIT_CONTAINER: Final = "holdfast-init"

# Volumes and paths in a training pod.
LAUNCHER_VOLUME: Final = "holdfast-launcher"
LAUNCHER_PATH: Final = "/holdfast/bin"
TOKEN_VOLUME: Final = "holdfast-token"  # noqa: S105 - the name of a volume
TOKEN_PATH: Final = "/holdfast/token"  # noqa: S105 - a folder
CA_VOLUME: Final = "holdfast-ca"
CA_PATH: Final = "/holdfast/ca"
CHECKPOINT_VOLUME: Final = "holdfast-checkpoints"
CHECKPOINT_PATH: Final = "/holdfast/checkpoints"
KEYS_VOLUME: Final = "holdfast-keys"
KEYS_PATH: Final = "/holdfast/keys"
STORAGE_CA_VOLUME: Final = "holdfast-storage-ca"
STORAGE_CA_PATH: Final = "/holdfast/storage-ca"
CODE_VOLUME: Final = "holdfast-code"
CODE_PATH: Final = "/code"
DEPENDENCIES_VOLUME: Final = "holdfast-dependencies"
DEPENDENCIES_PATH: Final = "/dependencies"
DATA_VOLUME: Final = "holdfast-data"  # with the number of the entry in trainer.data
DATA_KEYS_VOLUME: Final = "holdfast-data-keys"
DATA_KEYS_PATH: Final = "/holdfast/data-keys"
DATA_CA_VOLUME: Final = "holdfast-data-ca"
DATA_CA_PATH: Final = "/holdfast/data-ca"
CA_CONFIG_MAP: Final = "holdfast-ca"
CA_KEY: Final = "ca.crt"
TOKEN_AUDIENCE: Final = "holdfast"  # noqa: S105 - an audience, not a secret
