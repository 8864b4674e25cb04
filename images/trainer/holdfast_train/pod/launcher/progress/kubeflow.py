"""The status protocol of Kubeflow's TrainJob, which Hugging Face's Trainer speaks, turned into reports to the operator.

Of what a program says there, only steps, losses and other metrics count: 100 percent also comes when training was told
to stop, and the remaining time is wrong after a resume.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from holdfast_protocol.figures import MAX_COUNT, Figures, number_text
from holdfast_protocol.report import MAX_METRICS, METRIC_NAME, RELAY, ProgressReport, State

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs/{}/status"
MOST_METRICS = 256  # as Kubeflow's API allows
LONGEST_TEXT = 64  # characters of a name or a value, as Kubeflow's API allows
STEP = ("current_step", "global_step", "step")  # the first that is there counts
TOTAL = "total_steps"
NOT_SHOWN = frozenset(("loss", *STEP, TOTAL, "current_epoch"))  # beside step and loss
_COUNT = re.compile(r"0*[1-9][0-9]{0,15}")


def metrics_of(status: Mapping[str, Any]) -> dict[str, str]:
    """The metrics in a status, by name. A program has sent it, so it may be anything: the rest is left out."""
    trainer = status.get("trainerStatus")
    listed = trainer.get("metrics") if isinstance(trainer, dict) else None
    found = [one for one in listed[:MOST_METRICS] if isinstance(one, dict)] if isinstance(listed, list) else []
    pairs = ((_text(one.get("name")), _text(one.get("value"))) for one in found)
    return {name: value for name, value in pairs if name and value}


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_TEXT else ""


def count_of(metrics: Mapping[str, str], *names: str) -> int | None:
    """The first of these metrics that is a whole number above 0; None if none is."""
    return next((found for name in names if (found := count(metrics.get(name, "")))), None)


def count(text: str) -> int | None:
    """A whole number above 0; None if the text is something else."""
    number = int(text) if _COUNT.fullmatch(text) else 0
    return number if 0 < number <= MAX_COUNT else None


class RelayedReport:
    """The body of the next report of one program. Its pace counts from the first step that the program told."""

    def __init__(self, attempt: int, pod_uid: str) -> None:
        self._attempt, self._pod_uid = attempt, pod_uid
        self._first: tuple[int, float] | None = None  # step, and time.monotonic()
        self._state: State = "starting"

    def body(self, metrics: Mapping[str, str]) -> ProgressReport:
        """The report that stands for these metrics."""
        step, loss = count_of(metrics, *STEP), loss_of(metrics)
        if step is not None:
            self._state = "training"
            self._first = self._first or (step, time.monotonic())
        return ProgressReport(
            RELAY,
            self._attempt,
            self._pod_uid,
            self._state,
            step=step,
            steps=count_of(metrics, TOTAL),
            figures=Figures(loss=None if loss is None else number_text(loss), seconds_per_step=self._pace(step)),
            metrics=dict(islice(_others(metrics), MAX_METRICS)),
        )

    def _pace(self, step: int | None) -> str | None:
        if step is None or self._first is None or step <= self._first[0]:
            return None
        return f"{(time.monotonic() - self._first[1]) / (step - self._first[0]):.6f}"


def loss_of(metrics: Mapping[str, str]) -> float | None:
    """The loss; nan or inf if the loss or the norm of the gradients is so, since the Trainer logs such a loss as 0."""
    loss = number(metrics, "loss")
    if loss is None:
        loss = number(metrics, "train_loss")
    norm = number(metrics, "grad_norm")
    if norm is not None and not math.isfinite(norm) and (loss is None or math.isfinite(loss)):
        return norm
    return loss


def _others(metrics: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Metrics that people see beside step and loss. Names and values that a report may not have are left out."""
    for name in metrics:
        value = number(metrics, name)
        if name not in NOT_SHOWN and value is not None and METRIC_NAME.fullmatch(name):
            yield name, number_text(value)


def number(metrics: Mapping[str, str], name: str) -> float | None:
    """The metric as a number; None if it is missing or something else."""
    try:
        return float(metrics[name])
    except (KeyError, ValueError):
        return None
