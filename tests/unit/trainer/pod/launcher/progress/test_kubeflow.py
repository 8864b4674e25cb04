"""What of Kubeflow's protocol becomes a report to the operator, which accepts it."""

from typing import Any

import pytest

from holdfast_protocol.document import encode
from holdfast_protocol.report import ProgressReport, read
from holdfast_train.pod.launcher.progress import kubeflow
from holdfast_train.pod.launcher.progress.kubeflow import RelayedReport, metrics_of


def report(relayed: RelayedReport | None = None, **metrics: str) -> ProgressReport:
    relayed = relayed or RelayedReport(1, "p1")
    return read(encode(relayed.body(metrics)))


def test_what_the_trainer_of_hugging_face_posts() -> None:
    metrics = {"loss": "3.047445297241211", "grad_norm": "3.18", "current_step": "29", "total_steps": "60"}
    listed = [{"name": name, "value": value} for name, value in metrics.items()]
    sent = {"lastUpdatedTime": "2026-11-22T17:20:24.411171+00:00", "progressPercentage": 48, "metrics": listed}
    assert metrics_of({"trainerStatus": sent}) == metrics
    found = report(**metrics)
    assert (found.sender, found.state, found.step, found.steps) == ("Relay", "training", 29, 60)
    assert (found.figures.loss, dict(found.metrics)) == ("3.04745", {"grad_norm": "3.18"})


# Breaks if an accuracy of a program without the library is not seen, or if one odd name refuses the whole report.
def test_other_metrics() -> None:
    found = report(current_step="29", eval_accuracy="0.912345678", grad_norm="nan", **{"a b": "1", "x": "y"})
    assert found.metrics == {"eval_accuracy": "0.912346", "grad_norm": "nan"}
    assert len(report(**{f"metric{n}": "1" for n in range(100)}).metrics) == 16


def nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


# Breaks if a program can end the thread that answers its posts: each would then wait for 5 s inside the training loop.
@pytest.mark.parametrize(
    "metrics",
    [None, 5, {"step": "7"}, [7], [{"name": ["step"], "value": "4"}], [{"name": "step", "value": 7}], [{}],
     [{"name": "x" * 65, "value": "1"}], [{"name": "", "value": "1"}], [{"name": "a", "value": "1" * 65}], nested()],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_metric_is_left_out(metrics: Any) -> None:
    assert metrics_of({"trainerStatus": {"metrics": metrics}}) == metrics_of({"trainerStatus": metrics}) == {}


def test_only_so_many_metrics_are_read() -> None:
    listed = [{"name": f"m{n}", "value": "1"} for n in range(300)]
    assert len(metrics_of({"trainerStatus": {"metrics": listed}})) == 256


# Breaks if the last status of a training, which has no step, says that the program has not begun.
def test_a_status_without_a_step_keeps_the_state() -> None:
    relayed = RelayedReport(1, "p1")
    assert report(relayed).state == "starting"
    report(relayed, step="7")
    last = report(relayed, train_loss="2.5")
    assert (last.state, last.step, last.figures.loss) == ("training", None, "2.5")


@pytest.mark.parametrize(
    ("metrics", "loss"),
    [
        ({"loss": "nan"}, "nan"),
        ({"loss": "-inf"}, "-inf"),
        ({"loss": "0.0", "grad_norm": "nan"}, "nan"),
        ({"loss": "0.0", "grad_norm": "inf"}, "inf"),
        ({"grad_norm": "nan"}, "nan"),
        ({"loss": "1e-07", "grad_norm": "2"}, "0.0000001"),
        ({"loss": "many"}, None),
        ({"loss": "9" * 64}, "1e+64"),
        ({}, None),
    ],
)
def test_losses(metrics: dict[str, str], loss: str | None) -> None:
    assert report(**metrics).figures.loss == loss


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "9" * 64, "\u0661"])
def test_texts_that_are_no_steps(text: str) -> None:
    found = report(current_step=text, total_steps=text)
    assert (found.state, found.step, found.steps) == ("starting", None, None)


# Breaks if the pace is that since step 0: after a resume it would be far too fast.
def test_the_pace_counts_from_the_first_step_that_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(kubeflow.time, "monotonic", lambda: now)
    relayed = RelayedReport(1, "p1")
    assert report(relayed, current_step="10").figures.seconds_per_step is None
    now = 110.0
    assert report(relayed, current_step="30").figures.seconds_per_step == "0.500000"
    assert report(relayed, loss="1").figures.seconds_per_step is None
