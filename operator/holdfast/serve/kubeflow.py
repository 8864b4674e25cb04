"""Progress by the status protocol of Kubeflow's TrainJob, which Hugging Face's Trainer speaks.

The launcher relays it. Of what a program says there, only steps, losses and other metrics count: 100 percent also comes
when training was told to stop, and the remaining time is wrong after a resume.
"""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.api.scalars import EXACT
from holdfast.api.status import MAX_METRICS
from holdfast.core.observe.report import Report
from holdfast.serve.body import METRIC_NAME, ProgressBody

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{job}/status"
_MOST = 2**31 - 1
_OWN = frozenset(("loss", "current_step", "global_step", "step", "total_steps", "current_epoch"))
# 401 and 408 do not occur in the protocol: a bad token is forbidden, and a late body is not valid.
_STATUSES = {
    400: (422, "Invalid"),
    401: (403, "Forbidden"),
    403: (403, "Forbidden"),
    408: (422, "Invalid"),
    413: (413, "RequestEntityTooLarge"),
    429: (429, "TooManyRequests"),
    503: (503, "ServiceUnavailable"),
}


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Metric(_Part):
    """A figure of the program, as text."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    value: Annotated[str, Field(min_length=1, max_length=64)]


class TrainerStatus(_Part):
    """The limits are those of Kubeflow's API."""

    last_updated_time: AwareDatetime
    progress_percentage: Annotated[int, Field(ge=0, le=100)] | None = None
    estimated_remaining_seconds: Annotated[int, Field(ge=0, le=_MOST)] | None = None
    metrics: Annotated[tuple[Metric, ...], Field(max_length=256)] = ()


class StatusBody(_Part):
    """The body of a request."""

    trainer_status: TrainerStatus | None = None


def progress_of(body: StatusBody, pod: str, attempt: int, before: Report | None, now: datetime) -> ProgressBody | None:
    """The progress report that the status stands for, None if there is none. `before`: the last one of this pod."""
    if body.trainer_status is None:
        return None
    if before is not None and (before.attempt != attempt or not before.relayed):
        before = None
    metrics = {metric.name: metric.value for metric in body.trainer_status.metrics}
    step = next((found for name in ("current_step", "global_step", "step") if (found := _count(metrics, name))), None)
    state = "training" if step is not None else before.state if before else "starting"
    fields = {
        "attempt": attempt,
        "podUID": pod,
        "state": state,
        "step": step,
        "steps": _count(metrics, "total_steps"),
        "loss": _loss(metrics),
        "secondsPerStep": _pace(before, step, now),
        "metrics": dict(islice(_others(metrics), MAX_METRICS)),
    }
    return ProgressBody.model_validate(fields)


def failure(status: int, text: str) -> tuple[int, dict[str, Any]]:
    """HTTP status and body of an answer that is an error: a Status, as of every Kubernetes API."""
    code, reason = _STATUSES[status]
    return code, {"metadata": {}, "status": "Failure", "message": text, "reason": reason, "code": code}


def _count(metrics: dict[str, str], name: str) -> int | None:
    """A whole number above 0; None if the metric is missing or something else."""
    text = metrics.get(name, "")
    number = int(text) if re.fullmatch(r"[0-9]{1,16}", text) else 0
    return number if 0 < number <= EXACT else None


def _loss(metrics: dict[str, str]) -> str | None:
    """The loss; nan or inf if the loss or the norm of the gradients is so, since the Trainer logs such a loss as 0."""
    loss = _number(metrics, "loss")
    if loss is None:
        loss = _number(metrics, "train_loss")
    norm = _number(metrics, "grad_norm")
    if norm is not None and not math.isfinite(norm) and (loss is None or math.isfinite(loss)):
        return f"{norm}"
    return None if loss is None else f"{loss:.6g}"


def _others(metrics: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Metrics that people see beside step and loss. Names and values that a report may not have are left out."""
    for name in metrics:
        value = _number(metrics, name)
        if name not in _OWN and value is not None and METRIC_NAME.fullmatch(name):
            yield name, f"{value:.6g}"


def _number(metrics: dict[str, str], name: str) -> float | None:
    try:
        return float(metrics[name])
    except (KeyError, ValueError):
        return None


def _pace(before: Report | None, step: int | None, now: datetime) -> str | None:
    """Seconds a step since the first one that was reported; the program's own estimate counts from its start."""
    if before is None or before.first_step is None or before.first_step_at is None:
        return None
    if step is None or step <= before.first_step or now < before.first_step_at:
        return None
    return f"{(now - before.first_step_at).total_seconds() / (step - before.first_step):.6f}"
