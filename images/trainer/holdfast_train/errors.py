"""Errors of the trainer side. Each has a `reason` in one CamelCase word, which the pod's verdict reports.

HoldfastTrainError
+-- EnvironmentVariableError
+-- StateError
+-- CheckpointVersionError
+-- FencedError
+-- AlreadyCompleteError
+-- NonFiniteError
|   +-- NonFiniteStopError
+-- CodeError
|   +-- CodeMissingError
|   +-- CodeInvalidError
|   +-- CodeNotWrittenError
|   +-- CodeTooLargeError
+-- DataError
|   +-- DataChangedError
|   +-- DataTooLargeError
|   +-- DataInvalidError
+-- StorageError
    +-- StorageUnreachableError
    |   +-- RankMissingError
    |   +-- StorageProxyFailedError
    +-- StorageFullError
    +-- CheckpointCorruptError
    +-- WriterLostError
    +-- RanksDifferError
    +-- KeyMissingError
    +-- KeyChangedError
    +-- MisconfiguredStorageError
        +-- StorageDeniedError
        +-- StorageNotFoundError
        +-- StorageUntrustedError
        +-- StorageInvalidError
        +-- StorageNotAtomicError
        +-- StoragePrefixInUseError
        +-- NoCheckpointError
"""

from enum import IntEnum
from typing import ClassVar, Final, Literal

from holdfast_protocol import reasons

EXIT_UNAVAILABLE: Final = 75  # EX_TEMPFAIL of sysexits.h: another attempt may succeed
EXIT_FENCED: Final = 76
EXIT_MISCONFIGURED: Final = 78  # EX_CONFIG: a person has to change the configuration first


class CommandCode(IntEnum):
    """Exit codes of `holdfast-train`, as those of `holdfast`. docs/reference/exit-codes.md says what they mean."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_ANSWER = 3
    NOT_FOUND = 4
    FORBIDDEN = 5
    INTERRUPTED = 130


class HoldfastTrainError(Exception):
    """Base of all errors of holdfast_train.

    `outcome`: in the verdict (`failed`, `misconfigured`, `fenced` or `completed`). `exit_code`: of a process in a
    training pod. `command_code`: of a command that ends with this error.
    """

    reason: ClassVar[str] = "HoldfastError"
    outcome: ClassVar[Literal["completed", "failed", "misconfigured", "fenced"]] = "failed"
    exit_code: ClassVar[int] = 1
    command_code: ClassVar[CommandCode] = CommandCode.FAILED


class EnvironmentVariableError(HoldfastTrainError):
    """A HOLDFAST_ variable is missing or invalid."""

    reason = "EnvironmentInvalid"
    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StateError(HoldfastTrainError):
    """A state cannot be saved, or a checkpoint does not fit the program."""

    reason = "StateInvalid"


class CheckpointVersionError(HoldfastTrainError):
    """Another version of holdfast-train wrote the log or the checkpoint, and this version cannot read it.

    It is intact, so it is neither passed over nor put into quarantine, and nothing is written.
    """

    reason = "CheckpointVersion"
    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class FencedError(HoldfastTrainError):
    """A newer attempt, or a newer job of the same name, owns the log: this process must end and not commit."""

    reason = reasons.FENCED
    outcome = "fenced"
    exit_code = EXIT_FENCED


class AlreadyCompleteError(HoldfastTrainError):
    """The log of the prefix `uri` records that this job's training is complete at `step`.

    `step` is 0 if no name of a program's checkpoint says it.
    """

    reason = "AlreadyComplete"
    outcome = "completed"
    exit_code = 0

    def __init__(self, step: int, uri: str = "the address of this prefix") -> None:
        super().__init__(step, uri)
        self.step = step
        self.uri = uri

    def __str__(self) -> str:
        where = f" at step {self.step}" if self.step else ""
        return (
            f"training was completed{where}, by the checkpoint log; to continue it, start a job on "
            f"another prefix with checkpoint.resume: {self.uri}"
        )


class NonFiniteError(HoldfastTrainError):
    """Losses were not finite, and the log was rolled back: the next attempt goes on from an earlier checkpoint."""

    reason = "NonFinite"


class NonFiniteStopError(NonFiniteError):
    """Losses were not finite, and no attempt is to go on: a person has to look at the training first."""

    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class CodeError(HoldfastTrainError):
    """The folder of trainer.code cannot be sent, or cannot be put into the pod."""

    reason = "CodeInvalid"
    outcome: ClassVar[Literal["failed", "misconfigured"]] = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class CodeMissingError(CodeError):
    """The storage has no folder with this hash."""

    reason = "CodeMissing"
    command_code = CommandCode.NOT_FOUND


class CodeInvalidError(CodeError):
    """The folder has what is not allowed, or is not what its hash says."""


class CodeNotWrittenError(CodeError):
    """The node has no room for the folder, or cannot write it. Another node may."""

    reason = "CodeNotWritten"
    outcome = "failed"
    exit_code = 1


class CodeTooLargeError(CodeError):
    """The folder has too many files or bytes."""

    reason = "CodeTooLarge"


class DataError(HoldfastTrainError):
    """The data of trainer.data cannot be copied into the pod."""

    reason = "DataNotStaged"


class DataChangedError(DataError):
    """The data was changed while it was copied, or was damaged on the way."""

    reason = "DataChanged"


class DataTooLargeError(DataError):
    """The folder has not enough space for the data."""

    reason = "DataTooLarge"


class DataInvalidError(DataError):
    """The data, or its folder, cannot be used until a person changes something."""

    reason = reasons.DATA_INVALID
    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StorageError(HoldfastTrainError):
    """The checkpoint storage refused a request or failed."""

    reason = reasons.STORAGE_FAILED


class StorageUnreachableError(StorageError):
    """The storage did not answer, or cannot serve the request now. Another try may succeed."""

    reason = reasons.STORAGE_UNREACHABLE
    exit_code = EXIT_UNAVAILABLE
    command_code = CommandCode.NO_ANSWER


class RankMissingError(StorageUnreachableError):
    """Another rank has not written its part of a checkpoint."""


class StorageProxyFailedError(StorageUnreachableError):
    """The proxy cannot be reached, or refuses to connect. A call is repeated; in the end a person has to correct it."""

    reason = reasons.STORAGE_PROXY_FAILED
    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StorageFullError(StorageError):
    """The storage has no space left, or a quota is used up."""

    reason = "StorageFull"


class CheckpointCorruptError(StorageError):
    """The hash of a manifest, a size or a checksum in a checkpoint is wrong."""

    reason = "CheckpointCorrupt"


class WriterLostError(StorageError):
    """The writer process has ended. The next save starts another one."""

    reason = "WriterLost"
    exit_code = EXIT_UNAVAILABLE


class RanksDifferError(StorageError):
    """A checkpoint is given up: a rank has other values than rank 0 of `what`, a tensor or an object."""

    reason = "RanksDiffer"

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what


class KeyMissingError(StorageError):
    """The key does not exist."""

    reason = "KeyMissing"


class KeyChangedError(StorageError):
    """The key was written again since it was listed."""

    reason = "KeyChanged"


class MisconfiguredStorageError(StorageError):
    """The storage cannot be used until a person changes the configuration."""

    outcome = "misconfigured"
    exit_code = EXIT_MISCONFIGURED


class StorageDeniedError(MisconfiguredStorageError):
    """The credentials are wrong, have expired or lack a permission."""

    reason = reasons.STORAGE_DENIED
    command_code = CommandCode.FORBIDDEN


class StorageNotFoundError(MisconfiguredStorageError):
    """The bucket or the volume's folder does not exist."""

    reason = reasons.STORAGE_NOT_FOUND
    command_code = CommandCode.NOT_FOUND


class StorageUntrustedError(MisconfiguredStorageError):
    """The certificate of the storage is not trusted, or the CA that is named for it cannot be read."""

    reason = reasons.STORAGE_UNTRUSTED


class StorageInvalidError(MisconfiguredStorageError):
    """The address of the storage is invalid."""

    reason = "StorageInvalid"
    command_code = CommandCode.USAGE


class StorageNotAtomicError(MisconfiguredStorageError):
    """Of concurrent create-only writes of one key not exactly one succeeds: commits could be lost."""

    reason = "StorageNotAtomic"


class StoragePrefixInUseError(MisconfiguredStorageError):
    """The prefix belongs to another job."""

    reason = "StoragePrefixInUse"


class NoCheckpointError(MisconfiguredStorageError):
    """`resume` names a checkpoint that does not exist or is broken."""

    reason = "CheckpointNotFound"
    command_code = CommandCode.NOT_FOUND
