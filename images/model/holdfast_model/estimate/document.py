"""What an estimate says, and the file that `holdfast check --memory` reads. Needs no torch. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

FORMAT: Final = 1
MARGIN_BYTES: Final = 3 << 29  # 1.5 GiB: the context of CUDA, and workspaces of its libraries
MARGIN_SHARE: Final = 0.15  # of the tensors: what the allocator keeps and cannot use, and kernels that save more
# Both are assumptions, not measurements. So the margin alone never makes anything "does not fit".


@dataclass(frozen=True)
class Peak:
    """What tensors occupy at the moment when it is most, in bytes. Buffers of modules count as parameters."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    """With all that lives only for a part of the step."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.parameters + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True)
class Row:
    """One batch. `batch` is None if the function decides it; `training` and `inference` are None if not computed."""

    batch: int | None
    training: Peak | None
    inference: Peak | None


@dataclass(frozen=True)
class Estimate:
    """All rows, and where they are from. `unknown`: why there are none, if so."""

    source: str
    arguments: Sequence[str]
    torch: str
    rows: Sequence[Row] = ()
    unknown: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs. Sizes are in bytes."""
        rows = [
            {"batch": row.batch, "training": _sizes(row.training), "inference": _sizes(row.inference)}
            for row in self.rows
        ]
        where = {"source": self.source, "arguments": list(self.arguments), "torch": self.torch}
        return {"v": FORMAT, **where, "unknown": self.unknown, "rows": rows}


def with_margin(total: int) -> int:
    """The tensors, and other contents of the memory of a GPU."""
    return round(total * (1 + MARGIN_SHARE)) + MARGIN_BYTES


def verdict(total: int, memory: int) -> str:
    """`fits`; `may fit`, if the tensors fit and the margin does not; `does not fit`."""
    if total > memory:
        return "does not fit"
    return "fits" if with_margin(total) <= memory else "may fit"


def _sizes(peak: Peak | None) -> dict[str, int] | None:
    return {**asdict(peak), "peak": peak.total, "withMargin": with_margin(peak.total)} if peak else None
