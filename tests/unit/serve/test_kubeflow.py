"""What of Kubeflow's protocol becomes a progress report."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.operator.fake_api_server import T0

from holdfast.core.observe.report import Report
from holdfast.serve.body import ProgressBody
from holdfast.serve.kubeflow import StatusBody, failure, progress_of

BEFORE = Report("p1", 1, T0, "training", step=10, first_step=10, first_step_at=T0, relayed=True)


def status(percent: int | None = None, **metrics: str) -> StatusBody:
    told = [{"name": name, "value": value} for name, value in metrics.items()]
    fields = {"lastUpdatedTime": "2026-11-22T17:20:24.411171+00:00", "progressPercentage": percent, "metrics": told}
    return StatusBody.model_validate({"trainerStatus": fields})


def report(body: StatusBody, before: Report | None = None, seconds: float = 0) -> ProgressBody:
    found = progress_of(body, "p1", 1, before, T0 + timedelta(seconds=seconds))
    assert found is not None
    return found


def test_what_the_trainer_of_hugging_face_posts() -> None:
    found = report(status(48, loss="3.047445297241211", grad_norm="3.18", current_step="29", total_steps="60"))
    assert (found.state, found.step, found.steps, found.loss) == ("training", 29, 60, "3.04745")
    assert (found.fenced, found.checkpoint, found.acknowledged) == (False, None, 0)


# Breaks if an accuracy of a program without the library is not seen, or if one odd name refuses the whole report.
def test_other_metrics() -> None:
    many = {f"metric{n}": "1" for n in range(100)}
    found = report(
        status(48, current_step="29", eval_accuracy="0.912345678", grad_norm="nan", **{"a b": "1", "x": "y"})
    )
    assert found.metrics == {"eval_accuracy": "0.912346", "grad_norm": "nan"}
    assert len(report(status(48, current_step="29", **many)).metrics) == 16


@pytest.mark.parametrize("body", [{}, {"trainerStatus": None}])
def test_an_empty_status_says_nothing(body: dict[str, Any]) -> None:
    assert progress_of(StatusBody.model_validate(body), "p1", 1, None, T0) is None


# Breaks if 100 percent is taken for the end: it also comes when training was told to stop.
def test_all_percent_is_no_completion() -> None:
    assert report(status(100)).state == "starting"
    last = report(status(100, train_loss="2.5"), BEFORE)
    assert (last.state, last.step, last.loss) == ("training", None, "2.5")


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"loss": "nan"}, "nan"),
        ({"loss": "-inf"}, "-inf"),
        ({"loss": "0.0", "grad_norm": "nan"}, "nan"),
        ({"loss": "0.0", "grad_norm": "inf"}, "inf"),
        ({"grad_norm": "nan"}, "nan"),
        ({"loss": "1e-07", "grad_norm": "2"}, "1e-07"),
        ({"loss": "many"}, None),
        ({"loss": "9" * 64}, "1e+64"),
        ({}, None),
    ],
)
def test_losses(metrics: dict[str, str], loss: str | None) -> None:
    assert report(status(**metrics)).loss == loss


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "9" * 64, "\u0661"])
def test_texts_that_are_no_steps(text: str) -> None:
    found = report(status(current_step=text, total_steps=text))
    assert (found.state, found.step, found.steps) == ("starting", None, None)


# Breaks if the pace is that since step 0: after a resume it would be far too fast.
def test_the_pace_counts_from_the_first_step_that_was_reported() -> None:
    assert report(status(current_step="30"), BEFORE, seconds=10).seconds_per_step == "0.500000"
    assert report(status(current_step="30"), None, seconds=10).seconds_per_step is None
    for other in (replace(BEFORE, attempt=2), replace(BEFORE, relayed=False), replace(BEFORE, first_step=30)):
        assert report(status(current_step="30"), other, seconds=10).seconds_per_step is None


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"lastUpdatedTime": "2026-11-22T17:20:24Z", "progressPercentage": 101},
        {"lastUpdatedTime": "2026-11-22T17:20:24Z", "estimatedRemainingSeconds": -1},
        {"lastUpdatedTime": "2026-11-22T17:20:24Z", "metrics": [{"name": "a", "value": "1" * 65}]},
        {"lastUpdatedTime": "2026-11-22T17:20:24Z", "metrics": [{"name": "", "value": "1"}]},
        {"lastUpdatedTime": "2026-11-22T17:20:24Z", "metrics": [{"name": "a", "value": "1"}] * 257},
    ],
)
def test_statuses_beyond_the_limits_of_the_protocol(told: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StatusBody.model_validate({"trainerStatus": told})


def test_errors_are_statuses_as_of_kubernetes() -> None:
    expected = {"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}
    assert failure(401, "no") == (403, expected)
