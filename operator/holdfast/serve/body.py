"""The body of a progress report. It is checked strictly, because it comes from the user's program."""

from datetime import datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
)
from pydantic.alias_generators import to_camel

from holdfast.api.trainer import MAX_NODES
from holdfast_protocol import figures as table
from holdfast_protocol import report
from holdfast_protocol.endpoint import POD_UID
from holdfast_protocol.figures import Figures

MAX_RANKS = MAX_NODES * 1024  # more than the nodes of an attempt can have

Decimal = Annotated[str, PlainValidator(table.decimal)]
Loss = Annotated[str, PlainValidator(table.loss)]
Step = Annotated[int, Field(ge=0, le=table.MAX_COUNT)]
MetricName = Annotated[str, Field(pattern=f"^{report.METRIC_NAME.pattern}$")]
Uid = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Uri = Annotated[str, Field(max_length=2048)]
Line = Annotated[str, Field(max_length=report.MAX_LINE)]


class _Part(BaseModel):
    """A part of the body. Unknown fields are ignored, so that a newer library can report to an older operator."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class FirstStep(_Part):
    """The first step that this process trained, and how long ago by the trainer's own clock."""

    step: Step
    seconds_ago: Decimal


class Resumed(_Part):
    """The checkpoint that training resumed from."""

    step: Step
    uri: Uri
    note: Annotated[str, Field(max_length=1024)] = ""


class Saved(_Part):
    """The newest checkpoint that this pod committed."""

    step: Step
    uri: Uri
    bytes: Annotated[int, Field(ge=0, le=2**63 - 1)]
    seconds: Decimal
    committed_at: AwareDatetime


class StagingBody(_Part):
    """How far trainer.data is, in bytes. `over`: all of it is there."""

    bytes: Annotated[int, Field(ge=0, le=2**63 - 1)]
    total: Annotated[int, Field(ge=0, le=2**63 - 1)]
    over: bool = False


class SlowRankBody(_Part):
    """A rank that is slower than the others, as rank 0 tells it."""

    rank: Annotated[int, Field(ge=0, lt=MAX_RANKS)]
    pod: Annotated[int, Field(ge=0, lt=MAX_NODES)]  # its rank
    own_seconds: Decimal
    others_seconds: Decimal
    step_seconds: Decimal


def _each_once(slow: tuple[SlowRankBody, ...]) -> tuple[SlowRankBody, ...]:
    """Refuse a rank that is told twice: the status is keyed by rank, so the API server would refuse the whole of it."""
    ranks = [one.rank for one in slow]
    twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
    if twice is not None:
        raise ValueError(f"rank {twice} is told twice; each rank is told once")
    return slow


class ProgressBody(_Part):
    """The report of one program of a pod. Numbers that are not counts are decimal strings."""

    sender: report.Sender
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)]
    pod_uid: Annotated[Uid, Field(alias=POD_UID)]
    state: report.State
    step: Step | None = None
    steps: Step | None = None
    first_step: FirstStep | None = None
    figures: Annotated[Figures, PlainValidator(table.decode)] = Figures()
    metrics: Annotated[dict[MetricName, Loss], Field(max_length=report.MAX_METRICS)] = {}
    fenced: bool = False
    resumed_from: Resumed | None = None
    checkpoint: Saved | None = None
    save_error: Line | None = None
    memory_warning: Line | None = None
    slow_ranks: Annotated[
        tuple[SlowRankBody, ...], Field(max_length=report.MAX_SLOW_RANKS), AfterValidator(_each_once)
    ] = ()
    acknowledged: Annotated[int, Field(ge=0, le=table.MAX_COUNT)] = 0
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    staging: StagingBody | None = None
    sent_at: datetime | None = None
