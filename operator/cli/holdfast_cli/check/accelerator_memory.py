"""If the tensors of a step fit into the accelerators of a tier, by what `holdfast-train estimate --json` wrote."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.api.profile import Tier
from holdfast.api.trainer import Trainer
from holdfast_cli.check.findings import Report
from holdfast_cli.check.node_fit import Node, has_labels
from holdfast_cli.errors import CliError, unreadable
from holdfast_model.estimate.document import FORMAT, verdict, with_margin
from holdfast_train.exchange.progress_bar import format_size

LABEL: Final = "nvidia.com/gpu.memory"  # MiB of one GPU; NVIDIA's GPU feature discovery writes it
LARGEST_FILE: Final = 1 << 20
_MIB: Final = 1 << 20
_MOST: Final = 1 << 50
_PLURALS: Final = {"fits": "fit", "may fit": "may fit", "does not fit": "do not fit"}

Bytes = Annotated[int, Field(strict=True, ge=0, le=_MOST)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Peak(_Part):
    peak: Bytes


class _Row(_Part):
    batch: Annotated[int, Field(strict=True, ge=1, le=_MOST)] | None
    training: _Peak | None
    inference: _Peak | None = None


class _File(_Part):
    v: Literal[1]
    unknown: Annotated[str, Field(max_length=4096)] | None = None
    rows: Annotated[tuple[_Row, ...], Field(max_length=1000)]


@dataclass(frozen=True, slots=True)
class Need:
    """What the tensors of a batch occupy, in bytes. `batch` is None if the file does not say it."""

    batch: int | None
    total: int


@dataclass(slots=True)
class Needs:
    """What the batches of an estimate need. `given`: names of tiers, with the memory of one of their accelerators."""

    batches: tuple[Need, ...]
    given: Mapping[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    """Names of all tiers that were checked."""

    def check(self, tier: Tier, trainer: Trainer, nodes: Iterable[Node], where: str, report: Report) -> None:
        """Say which batches fit. Nothing is said of a tier without accelerators."""
        self.seen.add(tier.name)
        if tier.accelerator is None or trainer.accelerators_per_node == 0:
            return
        memory = self.given.get(tier.name) or memory_of(tier, nodes)
        if memory is None:
            report.warn(
                where,
                f"how much memory its accelerators have is not known: no node of it has the label {LABEL}; "
                f"say it with --accelerator-memory {tier.name}=SIZE",
            )
            return
        on = f"{tier.name} ({format_size(memory)})"
        words = _of_one(self.batches[0], memory, on) if len(self.batches) == 1 else _of_many(self.batches, memory, on)
        if any(verdict(need.total, memory) == "fits" for need in self.batches):
            report.note(where, words)
        else:
            report.warn(where, words)

    def unused(self) -> list[str]:
        """Names in `given` that no tier has."""
        return sorted(self.given.keys() - self.seen)


def read_needs(path: Path, given: Mapping[str, int]) -> Needs:
    """What the file says. CliError if it is not an estimate, or says that nothing is known."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise unreadable(f"--memory {path}", error) from error
    hint = "holdfast-train estimate --json writes such a file"
    if len(data) > LARGEST_FILE:
        raise CliError(f"--memory {path}: the file is larger than {format_size(LARGEST_FILE)}", hint=hint)
    try:
        found = _File.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise CliError(f"--memory {path}: {place}: {first['msg']} (version {FORMAT})", hint=hint) from error
    if found.unknown:
        raise CliError(f"--memory {path}: the estimate is not known: {found.unknown}")
    peaks = ((row.batch, row.training or row.inference) for row in found.rows)
    needs = tuple(Need(batch, peak.peak) for batch, peak in peaks if peak)
    if not needs:
        raise CliError(f"--memory {path}: it has no batch whose memory is known", hint=hint)
    return Needs(tuple(sorted(needs, key=lambda need: need.total)), given)


def memory_of(tier: Tier, nodes: Iterable[Node]) -> int | None:
    """The least memory that an accelerator of the tier's nodes has, in bytes; None if no node says it."""
    labels = [
        (node["metadata"].get("labels") or {}).get(LABEL, "") for node in nodes if has_labels(node, tier.node_selector)
    ]
    return min((int(text) * _MIB for text in labels if _is_count(text)), default=None)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text) > 0


def _of_one(need: Need, memory: int, on: str) -> str:
    what = "a step" if need.batch is None else f"a batch of {need.batch}"
    tensors, margin = format_size(need.total), format_size(with_margin(need.total))
    match verdict(need.total, memory):
        case "fits":
            return f"{what} fits {on}: its tensors need {tensors}, {margin} with a margin"
        case "may fit":
            return f"{what} may not fit {on}: its tensors need {tensors}, and {margin} with a margin"
        case _:
            return f"{what} does not fit {on}: its tensors need {tensors}"


def _of_many(needs: Iterable[Need], memory: int, on: str) -> str:
    """`batches of 4 and 8 fit spot-t4 (15.0 GiB), a batch of 16 may fit, a batch of 32 does not fit`."""
    groups = dict[str, list[str]]()
    for need in needs:
        groups.setdefault(verdict(need.total, memory), []).append("its own" if need.batch is None else str(need.batch))
    said = []
    for word, batches in groups.items():
        several = len(batches) > 1
        who = f"batches of {', '.join(batches[:-1])} and {batches[-1]}" if several else f"a batch of {batches[0]}"
        said.append(f"{who} {_PLURALS[word] if several else word}")
    return ", ".join([f"{said[0]} {on}", *said[1:]])
