"""Errors of the trainer side. Each has a `reason` in one CamelCase word: it becomes the reason of the pod's verdict."""

from typing import ClassVar, Final

__all__ = [
    "EXIT_FENCED",
    "EXIT_MISCONFIGURED",
    "EXIT_UNAVAILABLE",
    "AlreadyCompleteError",
    "CheckpointCorruptError",
    "EnvironmentVariableError",
    "FencedError",
    "HoldfastTrainError",
    "KeyMissingError",
    "MisconfiguredStorageError",
    "NoCheckpointError",
    "StateError",
    "StorageDeniedError",
    "StorageError",
    "StorageFullError",
    "StorageInvalidError",
    "StorageNotAtomicError",
    "StorageNotFoundError",
    "StoragePrefixInUseError",
    "StorageUnreachableError",
    "WriterLostError",
]

EXIT_UNAVAILABLE: Final = 75  # EX_TEMPFAIL of sysexits.h: worth another try
EXIT_FENCED: Final = 76
EXIT_MISCONFIGURED: Final = 78  # EX_CONFIG: a person has to change something first


class HoldfastTrainError(Exception):
    """Base of all errors of holdfast_train.

    `outcome` is the word of the verdict (`failed`, `misconfigured`, `fenced`), `exit_code` what the process ends with.
    """

    reason: ClassVar[str] = "HoldfastError"
    outcome: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1


class EnvironmentVariableError(HoldfastTrainError):
    """A HOLDFAST_ variable is missing or cannot be read."""

    reason = "EnvironmentInvalid"
    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StateError(HoldfastTrainError):
    """State that a checkpoint cannot hold, or a checkpoint that does not fit the program."""

    reason = "StateInvalid"


class FencedError(HoldfastTrainError):
    """Another attempt (or another life of the job) owns the log: this process must not commit and has to end."""

    reason = "Fenced"
    outcome = "fenced"
    exit_code = EXIT_FENCED


class AlreadyCompleteError(HoldfastTrainError):
    """The log of the prefix `uri` says that this job's training is complete: there is nothing to do."""

    reason = "AlreadyComplete"
    outcome = "completed"
    exit_code = 0

    def __init__(self, step: int, uri: str = "the address of this prefix") -> None:
        super().__init__(step, uri)
        self.step = step
        self.uri = uri

    def __str__(self) -> str:
        return (
            f"the checkpoint log says that training was completed at step {self.step}; to train on, start a job on "
            f"another prefix with checkpoint.resume: {self.uri}"
        )


class StorageError(HoldfastTrainError):
    """The checkpoint storage refused or failed."""

    reason = "StorageFailed"


class StorageUnreachableError(StorageError):
    """The storage did not answer, or answered that it cannot just now. Worth another try."""

    reason = "StorageUnreachable"
    exit_code = EXIT_UNAVAILABLE


class StorageFullError(StorageError):
    """No space, or a quota is used up."""

    reason = "StorageFull"


class CheckpointCorruptError(StorageError):
    """A checkpoint's manifest hash, sizes or checksums do not hold."""

    reason = "CheckpointCorrupt"


class WriterLostError(StorageError):
    """The process that writes checkpoints has ended. Another one is started for the next."""

    reason = "WriterLost"
    exit_code = EXIT_UNAVAILABLE


class KeyMissingError(StorageError):
    """The key does not exist."""

    reason = "KeyMissing"


class MisconfiguredStorageError(StorageError):
    """The storage will not work until a person changes something."""

    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StorageDeniedError(MisconfiguredStorageError):
    """The credentials are wrong, have expired or lack a permission."""

    reason = "StorageDenied"


class StorageNotFoundError(MisconfiguredStorageError):
    """The bucket or the volume's folder does not exist."""

    reason = "StorageNotFound"


class StorageInvalidError(MisconfiguredStorageError):
    """The address of the storage cannot be read."""

    reason = "StorageInvalid"


class StorageNotAtomicError(MisconfiguredStorageError):
    """Create-only writes of the same key do not have exactly one winner: commits could be lost."""

    reason = "StorageNotAtomic"


class StoragePrefixInUseError(MisconfiguredStorageError):
    """The prefix belongs to another job."""

    reason = "StoragePrefixInUse"


class NoCheckpointError(MisconfiguredStorageError):
    """`resume` names a checkpoint that does not exist or does not hold."""

    reason = "CheckpointNotFound"
