"""What a trainer and its writer tell each other. A trainer asks; a writer answers with `Saved` or `Failed`."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast_train import errors
from holdfast_train.commitlog.records import Fence
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, StorageError
from holdfast_train.format.tree import Tree
from holdfast_train.save.plan import Plan

__all__ = ["Abandon", "Copied", "Failed", "Free", "Hurry", "Map", "Open", "Save", "error_of"]


@dataclass(frozen=True)
class Open:
    """The first message. `fence` is what rank 0 holds."""

    environment: Environment
    rank: int
    ranks: int
    fence: Fence | None


@dataclass(frozen=True)
class Map:
    """A new arena of `size` bytes; its file comes with this. It takes the place of the one of that number, if any."""

    arena: int
    size: int


@dataclass(frozen=True)
class Save:
    """Upload what is being copied into `arena`, and commit it.

    `plan` is sent when it is another than that of the save before. `tree` is what all ranks share, `own` what this one
    has alone. `begun`: time.monotonic() of the trainer. The storage may be silent for `patience` seconds, and nothing
    is tried again after `at_most` seconds.
    """

    name: str
    step: int
    arena: int
    plan: Plan | None
    tree: Tree
    own: Tree
    versions: Mapping[str, str]
    program: Mapping[str, str]
    metrics: Mapping[str, str]
    begun: float
    patience: float
    at_most: float


@dataclass(frozen=True)
class Copied:
    """The first `size` bytes of the checkpoint `name` are in its arena."""

    name: str
    size: int


@dataclass(frozen=True)
class Abandon:
    """The checkpoint `name` will not be copied to its end."""

    name: str
    why: str


@dataclass(frozen=True)
class Hurry:
    """Training stands still until all is committed, so no limit of speed holds. The next `Save` is limited again.

    Nothing is tried again after `at_most` seconds from now, which may be infinite.
    """

    at_most: float


@dataclass(frozen=True)
class Free:
    """The arena may be written again: its bytes are uploaded, or will not be."""

    arena: int


@dataclass(frozen=True)
class Failed:
    """A checkpoint that is not committed. `error` names a class of `errors`."""

    step: int
    error: str
    text: str

    @classmethod
    def by(cls, step: int, error: HoldfastTrainError) -> "Failed":
        """The message for `error`."""
        return cls(step, type(error).__name__, str(error))


def error_of(failed: Failed) -> HoldfastTrainError:
    """The error that the writer had."""
    kind = getattr(errors, failed.error, StorageError)
    made = kind(failed.text) if kind is not errors.AlreadyCompleteError else StorageError(failed.text)
    assert isinstance(made, HoldfastTrainError)
    return made
