"""Reasons of an end that the operator acts on and code in the pod writes. A verdict may have any other reason too."""

from __future__ import annotations

COMPLETED = "Completed"
NOTHING_SAVED = "NothingSaved"  # completed, and no save was ever committed from checkpoint.folder
EXITED = "Exited"
SAVED_AND_LEFT = "SavedAndLeft"  # the last step is saved
LEFT_WITHOUT_SAVING = "LeftWithoutSaving"
REGROUPED = "Regrouped"  # the launcher ended the program on an order, because the next attempt begins
FENCED = "Fenced"  # a newer attempt owns the checkpoints
STALLED = "Stalled"  # the program took no step for failure.stallTimeout
OUT_OF_MEMORY = "OutOfMemory"
USER_EXCEPTION = "UserException"  # the program failed, and no other reason is known
COMMAND_NOT_FOUND = "CommandNotFound"
COMMAND_NOT_EXECUTABLE = "CommandNotExecutable"
STORAGE_UNREACHABLE = "StorageUnreachable"
STORAGE_FAILED = "StorageFailed"
STORAGE_DENIED = "StorageDenied"
STORAGE_NOT_FOUND = "StorageNotFound"
STORAGE_UNTRUSTED = "StorageUntrusted"  # its certificate
STORAGE_PROXY_FAILED = "StorageProxyFailed"
DATA_INVALID = "DataInvalid"


def of_signal(number: int) -> str:
    """The reason of a program that a signal ended."""
    return f"Signal{number}"
