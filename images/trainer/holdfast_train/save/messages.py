"""The messages between a trainer and its writer.

The writer answers each `Save` with one `Finished`. Before it, there may be a `Kept` for each try that found the storage
unreachable, and a `Retrying` for each further try.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast_train import errors
from holdfast_train.commitlog.checkpoints import Clean, Saved
from holdfast_train.commitlog.records import Fence
from holdfast_train.environment import Environment
from holdfast_train.errors import HoldfastTrainError, RanksDifferError, StorageError
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.rank_agreement import ALL_ALIKE, Apart
from holdfast_train.format.tree import Tree
from holdfast_train.progress import Silence
from holdfast_train.save.links import CopyLinks
from holdfast_train.save.plan import Plan
from holdfast_train.series.segment import Header


@dataclass(frozen=True)
class Open:
    """The first message. `fence`: the one that rank 0 has raised; None on other ranks.

    `lost`: saves that earlier writers of this process have not finished before they ended. `links`: to the ranks of
    other nodes; the descriptor of their listener is sent with this. `keeps_old`: this attempt has gone on from a copy
    in memory, which stays until there is a newer one. `series`: of the Run whose history the writer keeps, on rank 0.
    """

    environment: Environment
    rank: int
    ranks: int
    fence: Fence | None
    lost: tuple[CheckpointName, ...] = ()
    links: CopyLinks | None = None
    keeps_old: bool = False
    series: Header | None = None

    @property
    def descriptors(self) -> Sequence[int]:
        """What has to be sent with this."""
        return [] if self.links is None else [self.links.listener]


@dataclass(frozen=True)
class MapArena:
    """A new arena of `size` bytes, whose file descriptor is sent with this. It replaces the one of the same number."""

    arena: int
    size: int


@dataclass(frozen=True)
class UsePlan:
    """The `plan` of the saves to come, until one has another. It has no `copies`: a writer needs none."""

    plan: Plan


@dataclass(frozen=True)
class Save:
    """Upload and commit the state that is being copied into `arena`.

    `plan`: as `UsePlan`; None if the plan is known. `fresh`: the name under which all ranks write parts of frozen
    tensors in this save; `kept`: the name of this rank's parts if the plan keeps them. `tree` describes the state of
    all ranks, `own` this rank's, with what is `apart`; `sums`: its `byte_sums`. `is_change`: `tree` is the `delta` from
    the tree of the save before. `begun`: time.monotonic() of the trainer. The storage may be silent for `patience`
    seconds, and nothing is retried after `at_most` seconds. `clean`: of this step.
    """

    name: CheckpointName
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
    fresh: CheckpointName | None = None
    kept: CheckpointName | None = None
    apart: Apart = ALL_ALIKE
    sums: Mapping[str, str] = field(default_factory=dict)
    is_change: bool = False
    clean: Clean | None = None


@dataclass(frozen=True)
class Copied:
    """The first `size` bytes of the checkpoint `name` are in its arena. The last come with `sums`: see `Sample`."""

    name: CheckpointName
    size: int
    sums: str = ""


@dataclass(frozen=True)
class Abandon:
    """The copy of the checkpoint `name` will not be completed."""

    name: CheckpointName
    why: str


@dataclass(frozen=True)
class Drop:
    """Give up the save `name` if it is kept. Its `Finished` follows soon, also if it is being tried again just now."""

    name: CheckpointName


@dataclass(frozen=True)
class ShortenDeadline:
    """Training waits until all is committed, so no limit of the upload rate applies until the next `Save`.

    Nothing is retried after `at_most` seconds from now, which may be infinite.
    """

    at_most: float


@dataclass(frozen=True)
class Failed:
    """A checkpoint is not committed. `error` names a class of `errors`. `what`: see RanksDifferError."""

    step: int
    error: str
    text: str
    what: str = ""

    @classmethod
    def of(cls, step: int, error: HoldfastTrainError) -> "Failed":
        """The message for `error`."""
        what = error.what if isinstance(error, RanksDifferError) else ""
        return cls(step, type(error).__name__, str(error), what)

    def to_error(self) -> HoldfastTrainError:
        """The error that the writer raised."""
        if self.what:
            return RanksDifferError(self.text, self.what)
        kind = getattr(errors, self.error, StorageError)
        made = StorageError(self.text) if kind is errors.AlreadyCompleteError else kind(self.text)
        assert isinstance(made, HoldfastTrainError)
        return made


@dataclass(frozen=True)
class Finished:
    """The save `name` is over, and its arena may be written again: its bytes are uploaded, or will not be.

    `result`: None on a rank other than 0 that has uploaded its part, and of a kept save that was dropped.
    """

    name: CheckpointName
    result: Saved | Failed | None


@dataclass(frozen=True)
class Kept:
    """The storage is unreachable (`why`). The writer keeps the save `name`, with its arena, and tries it again later.

    A newer `Save` and a `Drop` end it.
    """

    name: CheckpointName
    why: Failed


@dataclass(frozen=True)
class Retrying:
    """The kept save `name` is being tried again."""

    name: CheckpointName


@dataclass(frozen=True)
class StorageSilence:
    """The storage does not answer the writer; None: it answers again."""

    silence: Silence | None
