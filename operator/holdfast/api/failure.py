"""The part of a TrainingJob's spec that says what is done when its program fails."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, GetJsonSchemaHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from holdfast.api.errors import ScalarError
from holdfast.api.model import Model
from holdfast.api.rules import Rule
from holdfast.api.scalars import (
    DURATION_LENGTH,
    DURATION_PARTS,
    DurationBounds,
    duration_rule,
    format_duration,
    parse_duration,
)
from holdfast.api.strings import EndReasonText, RuleText

FailureAction = Literal["Fail", "Retry", "Elsewhere", "Ignore"]
ExitCode = Annotated[int, Field(strict=True, ge=1, le=255)]


class FailureRule(Model):
    """What is done about failures of the program that meet all conditions of the rule. Set at least one condition."""

    exit_codes: Annotated[tuple[ExitCode, ...], Field(min_length=1, max_length=32)] = ()
    """The program ended with one of these exit codes; with 128 + N if signal N ended it. Under torchrun, this is the
    exit code of the process that failed first."""
    reasons: Annotated[tuple[EndReasonText, ...], Field(min_length=1, max_length=32)] = ()
    """The attempt ended for one of these reasons, as holdfast describe shows them, such as OutOfMemory."""
    message: RuleText | None = None
    """The message of the end, as holdfast describe shows it, contains this text, such as CUDA error. It has the last
    lines of the program. * stands for any text, also several lines."""
    action: FailureAction
    """Fail: the job ends as Failed at once. Retry: the failure counts, and the program is started again, as without a
    rule. Elsewhere: the same, but on another node. Ignore: it counts as an interruption, and not against
    maxFailures."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="at least one of exitCodes, reasons and message must be set",
            cel="has(self.exitCodes) || has(self.reasons) || has(self.message)",
            is_met=lambda rule: bool(rule.exit_codes or rule.reasons or rule.message is not None),
            got_cel="'none'",
            got=lambda _: "none",
        ),
    )


_AUTO: Final = "Auto"
_OFF: Final = "Off"
_STALL_WORDS: Final = 'must be Auto, "Off" in quotes (YAML reads Off as false), or a duration from 10s to 7d, as 20m'


class StallTimeout(Model):
    """How long a training takes no step until it counts as hanging: `Auto`, `Off` or `20m`. A string in the API."""

    period: timedelta | None = None
    auto: bool = False

    shortest: ClassVar[timedelta] = timedelta(seconds=10)
    longest: ClassVar[timedelta] = timedelta(days=7)

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if isinstance(value, dict | cls):
            return value
        if value in (_AUTO, _OFF):
            return {"auto": value == _AUTO}
        try:
            return {"period": parse_duration(value)}
        except ScalarError:
            raise ScalarError(value, _STALL_WORDS) from None

    @model_validator(mode="after")
    def _bounds(self) -> "StallTimeout":
        if self.period is not None and (self.auto or not self.shortest <= self.period <= self.longest):
            raise ScalarError(str(self), _STALL_WORDS)
        return self

    @model_serializer
    def _text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if self.period is not None:
            return format_duration(self.period)
        return _AUTO if self.auto else _OFF

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        unless = f"self == '{_AUTO}' || self == '{_OFF}' || "
        return {
            "type": "string",
            "pattern": f"^({_AUTO}|{_OFF}|{DURATION_PARTS})$",
            "minLength": 2,
            "maxLength": DURATION_LENGTH,
            "x-kubernetes-validations": [duration_rule("10s", "7d", _STALL_WORDS, unless=unless)],
        }


class Spike(Model):
    """When the losses of a training explode."""

    deviations: Annotated[int, Field(strict=True, ge=3, le=1000)] = 10
    """A loss is far above if it exceeds the median of the window by more than this many deviations. A deviation is the
    median absolute deviation times 1.4826, or 1% of the median if that is more."""
    steps: Annotated[int, Field(strict=True, ge=1, le=50)] = 10
    """After this many losses in a row that are far above, the training counts as spoiled."""
    window: Annotated[int, Field(strict=True, ge=20, le=1000)] = 200
    """How many losses before are compared. Until an attempt has reported that many, no loss is far above."""


class SlowRanks(Model):
    """What is done about ranks that are slower than the others, in a training with several of them."""

    action: Literal["Replace", "Tell", "Ignore"] = "Tell"
    """Tell: the condition SlowRank says which rank is slow. Replace: also, its node is left for another one, if that is
    expected to save time. Ignore: ranks are not compared."""
    window: Annotated[timedelta, DurationBounds("1s", "1h")] = timedelta(minutes=5)
    """Over how long a rank is compared with the others. It is slow after three windows in a row."""


class Failure(Model):
    """How many failures of the program, and how many attempts without progress, end the job.

    The job survives any number of interruptions (preemptions, evictions, lost nodes) while attempts make progress.
    """

    max_failures: Annotated[int, Field(strict=True, ge=0, le=100)] = 3
    """How many failures within the window the job survives. One more failure ends the job as Failed."""
    window: Annotated[timedelta, DurationBounds("1m", "365d")] = timedelta(hours=24)
    """For how long a failure counts, such as 24h."""
    failure_rules: Annotated[tuple[FailureRule, ...], Field(max_length=16, alias="rules")] = ()
    """What is done about certain failures. The first rule that fits decides; without one, the failure counts."""
    non_finite: Literal["Rollback", "Stop", "Ignore"] = "Rollback"
    """What is done if losses that a Run reports are not finite: see docs/how-to/losses-that-are-not-numbers.md."""
    spike: Spike | None = None
    """When losses that a Run reports count as exploding; {} takes the defaults. Then the same is done as if losses are
    not finite: see nonFinite. Not set: never."""
    stall_timeout: StallTimeout = StallTimeout(auto=True)
    """How long a training that has begun may take no step, such as 20m; then the attempt fails as Stalled. It needs a
    program with a Run, or one that shows its steps. Auto: at least 5m, and five times the usual pause between steps, in
    which the program uses hardly any processor, and reads, writes and sends hardly anything; with several nodes, only
    on a node that has a rank which is the cause. With a duration, also a program that works counts as hanging: make it
    longer than any evaluation or save. "Off", in quotes: never. Starts, restores, saves of a Run and waiting at the
    fence do not count."""
    slow_ranks: SlowRanks = SlowRanks()
    """What is done about a rank that works at least a third longer in each step than the others, which wait for it: see
    docs/how-to/bad-nodes.md."""
    silent_node: Literal["Auto", "Wait", "Replace"] = "Auto"
    """When the next attempt starts if the program of the last one may still run: on a node that died or is cut off, or
    in a pod that its kubelet does not end. Auto: at once, if its commits stop at the fence of the checkpoints and it
    reaches nothing else that counts: a program with a Run, or with checkpoint.folder and no persistentVolumeClaim in
    trainer.volumes that can be written. Otherwise when the old pod is confirmed gone. Wait: always then. Replace:
    always at once; until the old program ends, both write to what they share."""
    max_fruitless: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    """After this many attempts in a row that were interrupted or failed without progress, the job ends as Failed. With
    Holdfast's checkpoints, progress is a newer checkpoint: steps after it are trained again. A program that only
    reports its steps makes progress with its first step; a program that reports none, with a saved checkpoint of its
    folder, or by running for five minutes.
    Attempts that got no node do not count, and neither do those whose Spot node the cluster took back, or whose node
    was announced to go."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="spike needs nonFinite Rollback or Stop",
            cel="!has(self.spike) || self.nonFinite != 'Ignore'",
            is_met=lambda failure: failure.spike is None or failure.non_finite != "Ignore",
            got_cel="'Ignore'",
            got=lambda _: "Ignore",
        ),
    )
